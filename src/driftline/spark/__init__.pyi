from ._fleet import Fleet as Fleet
from ._fleet import fleet as fleet
from ._scoring import score as score
from ._sinks import write_once as write_once
from ._stepping import step as step
from ._watching import read_states as read_states
from ._watching import states as states
from ._watching import watch as watch

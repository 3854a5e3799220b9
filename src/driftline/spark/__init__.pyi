from ._fleet import Fleet as Fleet
from ._fleet import fleet as fleet
from ._scoring import score as score
from ._stepping import Sites as Sites
from ._watching import watch as watch

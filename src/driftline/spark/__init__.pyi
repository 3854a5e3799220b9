from ._scoring import score as score
from ._stepping import step as step
from ._watching import watch as watch

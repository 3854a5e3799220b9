from ._scoring import score as score
from ._stepping import Sites as Sites
from ._watching import watch as watch

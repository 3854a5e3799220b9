from ._foreign import ClaytonStream as ClaytonStream
from ._foreign import CompositionStream as CompositionStream
from ._foreign import RushHourStream as RushHourStream
from ._shop import Shop as Shop
from ._streams import CorrelationStream as CorrelationStream
from ._streams import GaussianStream as GaussianStream
from ._streams import MixtureStream as MixtureStream

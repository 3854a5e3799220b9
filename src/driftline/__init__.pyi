from .alarms import Cause as Cause
from .alarms import DriftAlarm as DriftAlarm
from .alarms import Signal as Signal
from .estimators import ContinualDensityRatio as ContinualDensityRatio
from .estimators import DensityRatio as DensityRatio
from .estimators import UntrustedEstimateWarning as UntrustedEstimateWarning
from .files import StateFileError as StateFileError
from .fitting import FitDivergedError as FitDivergedError
from .fitting import FitInfo as FitInfo
from .fitting import Training as Training
from .inference import Attribution as Attribution
from .inference import Doubt as Doubt
from .inference import DoubtCode as DoubtCode
from .inference import Estimate as Estimate
from .inference import divergence as divergence
from .monitor import Monitor as Monitor
from .monitor import Record as Record
from .monitor import compare as compare
from .recursion import Info as Info
from .recursion import OriginalInfo as OriginalInfo

__version__: str

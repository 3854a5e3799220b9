"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from driftline.alarms import DriftAlarm, Signal
from driftline.attribution import Attribution
from driftline.continual import Info, OriginalInfo
from driftline.divergences import divergence
from driftline.estimates import Estimate
from driftline.estimators import ContinualDensityRatio
from driftline.fitting import FitDivergedError, FitInfo
from driftline.shell import UntrustedEstimateWarning
from driftline.static import DensityRatio
from driftline.storage import StateFileError
from driftline.training import Training

__version__ = "0.1.0"

__all__ = [
    "Attribution",
    "ContinualDensityRatio",
    "DensityRatio",
    "DriftAlarm",
    "Estimate",
    "FitDivergedError",
    "FitInfo",
    "Info",
    "OriginalInfo",
    "Signal",
    "StateFileError",
    "Training",
    "UntrustedEstimateWarning",
    "__version__",
    "divergence",
]

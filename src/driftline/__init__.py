"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from driftline.continual import Info, OriginalInfo
from driftline.divergences import divergence
from driftline.estimators import ContinualDensityRatio, DensityRatio, UntrustedEstimateWarning
from driftline.fitting import FitDivergedError, FitInfo, Training
from driftline.inference import Estimate
from driftline.storage import StateFileError

__version__ = "0.1.0"

__all__ = [
    "ContinualDensityRatio",
    "DensityRatio",
    "Estimate",
    "FitDivergedError",
    "FitInfo",
    "Info",
    "OriginalInfo",
    "StateFileError",
    "Training",
    "UntrustedEstimateWarning",
    "__version__",
    "divergence",
]

"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from driftline.continual import Info, OriginalInfo
from driftline.divergences import divergence
from driftline.estimators import ContinualDensityRatio, DensityRatio, UntrustedEstimateWarning
from driftline.fitting import FitDivergedError, FitInfo
from driftline.estimates import Estimate
from driftline.storage import StateFileError
from driftline.training import Training

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

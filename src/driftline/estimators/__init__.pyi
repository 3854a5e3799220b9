from ._base import UntrustedEstimateWarning as UntrustedEstimateWarning
from ._continual import ContinualDensityRatio as ContinualDensityRatio
from ._static import DensityRatio as DensityRatio

from ._continual import ContinualDensityRatio as ContinualDensityRatio
from ._quantities import UntrustedEstimateWarning as UntrustedEstimateWarning
from ._static import DensityRatio as DensityRatio

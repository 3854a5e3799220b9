from ._continual import ContinualDensityRatio as ContinualDensityRatio
from ._files import dump_estimator as dump_estimator
from ._files import parse_estimator as parse_estimator
from ._static import DensityRatio as DensityRatio
from ._warnings import UntrustedEstimateWarning as UntrustedEstimateWarning
from ._warnings import warn_of as warn_of

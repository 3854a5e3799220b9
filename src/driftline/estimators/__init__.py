"""The scikit-learn surface: ``DensityRatio`` for two samples, ``ContinualDensityRatio`` for a stream."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

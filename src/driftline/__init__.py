"""Density ratios on a stream: measure how far the data has moved from where it began, without keeping the original."""

from driftline._extras import attach

__version__ = "0.1.0"

__getattr__, __dir__, _names = attach(__name__, __file__)
# `from driftline import *` must not fail, nor load the monitor, where the [monitor] extra is missing
__all__ = [*(name for name in _names if name not in ("Monitor", "Record", "compare")), "__version__"]

"""A drift monitor for tables arriving over time: one Record per window, one file that keeps no history."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

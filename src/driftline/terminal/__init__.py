"""A run on the screen: live, as lines, or as JSON."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

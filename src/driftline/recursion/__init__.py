"""The recursion over windows: the state it carries, its steps, their diagnostics and their storage."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

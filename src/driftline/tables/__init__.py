"""Encoding of tables with mixed columns as arrays; the kind of each column is frozen on the first window."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

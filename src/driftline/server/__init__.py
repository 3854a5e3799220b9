"""A dashboard of runs: pages, JSON and metrics of tracker files, read as they are written."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="serve")

"""Reports: a run of the monitor as one HTML page that opens offline, and as one figure."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

"""Reports: a run of the monitor as one HTML page that opens offline, and as one figure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

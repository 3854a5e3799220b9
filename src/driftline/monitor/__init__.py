"""A drift monitor for tables arriving over time: one Record per window, one file that keeps no history."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

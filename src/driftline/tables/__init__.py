"""Tables of mixed columns as arrays, by kinds that are frozen on the first window."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

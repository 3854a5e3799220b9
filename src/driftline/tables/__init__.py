"""Encoding of tables with mixed columns as arrays; the kind of each column is frozen on the first window."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

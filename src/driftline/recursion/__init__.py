"""The recursion over windows: the state it carries, its steps, their diagnostics and their storage."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

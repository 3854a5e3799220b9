"""Step after step: what is carried from window to window, how a step is taken, how it is judged and stored."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

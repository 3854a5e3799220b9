"""Judging generative models that learn task after task, without keeping the tasks' real samples."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Fit one ratio between two samples: objectives, models, designs, and fits by Newton's method or mini-batches."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

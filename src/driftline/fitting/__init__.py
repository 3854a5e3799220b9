"""Fit one ratio between two samples: objectives, models, designs, and fits by Newton's method or mini-batches."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

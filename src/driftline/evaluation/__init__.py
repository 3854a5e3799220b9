"""Judging generative models that learn task after task, without keeping the tasks' real samples."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="eval")

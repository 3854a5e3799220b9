"""Rows from anywhere (files, folders, pipes, frames), cut into windows by rows or by time."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

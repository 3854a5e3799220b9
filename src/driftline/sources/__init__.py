"""Rows from anywhere (files, folders, pipes, frames), cut into windows by rows or by time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

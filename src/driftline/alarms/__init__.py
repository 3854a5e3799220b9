"""Alarms: turn estimates into decisions. They know nothing about models and keep only a few numbers."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

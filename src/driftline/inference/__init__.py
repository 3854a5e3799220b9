"""Estimates and their uncertainty: divergences, error bars and intervals, dependence, attribution, theory."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

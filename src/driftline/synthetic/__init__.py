"""Simulated streams and an invented web shop whose true drift is known, for demos, tests and benchmarks."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

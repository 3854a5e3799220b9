"""Simulated streams and an invented web shop whose true drift is known, for demos, tests and benchmarks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

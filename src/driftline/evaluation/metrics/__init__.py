"""Measures of generated against real samples that need both, on feature arrays: FID, KID, PRD, nearest neighbours."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="eval")

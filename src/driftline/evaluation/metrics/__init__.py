"""Measures of generated against real samples that need both, on feature arrays: FID, KID, PRD, nearest neighbours."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

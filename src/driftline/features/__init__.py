"""Features of rows, X -> Z (n, D), by networks: a continual VAE, a classifier's last layer, or your own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

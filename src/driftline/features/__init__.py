"""Features of rows, X -> Z (n, D), by networks: a continual VAE, a classifier's last layer, or your own."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

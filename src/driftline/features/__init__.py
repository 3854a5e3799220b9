"""Features of images and other rows, X -> Z (n, D): a continual VAE, a classifier's last layer, or your own."""

from driftline.features.adapters import as_features
from driftline.features.classifier import ClassifierFeatures
from driftline.features.vae import ContinualVAE

__all__ = ["ClassifierFeatures", "ContinualVAE", "as_features"]

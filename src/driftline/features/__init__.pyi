from ._adapters import as_features as as_features
from ._classifier import ClassifierFeatures as ClassifierFeatures
from ._vae import ContinualVAE as ContinualVAE

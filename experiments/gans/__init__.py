"""Fig. 5 and 6: four GANs that learn one class after the other, judged without keeping real images."""

from experiments.gans.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]

"""Tab. 2: f-divergences by density ratios on 2,048 features."""

from experiments.high_dimensional.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]

"""Fig. 2: models of the latest window, weighted back to the first."""

from experiments.covariate_shift.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]

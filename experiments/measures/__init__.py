"""Tab. 1 and Fig. 7: what FID, KID, precision and recall, and f-divergences say of two samples."""

from experiments.measures.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]

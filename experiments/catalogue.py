"""All experiments by name, in the order of the paper."""

from __future__ import annotations

from experiments import (
    ablation,
    covariate_shift,
    discriminator,
    gans,
    growing,
    high_dimensional,
    measures,
    paper_variants,
    pearson,
    penalty,
    step_size,
    stopping,
    tracing_multiple,
    tracing_single,
    variance,
)
from experiments.experiment import Experiment

__all__ = ["EXPERIMENTS"]

_ALL = (
    variance,
    covariate_shift,
    tracing_single,
    tracing_multiple,
    paper_variants,
    step_size,
    growing,
    penalty,
    stopping,
    ablation,
    gans,
    measures,
    high_dimensional,
    pearson,
    discriminator,
)

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _ALL}

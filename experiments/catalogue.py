"""All experiments by name, in the order of the paper."""

from __future__ import annotations

from experiments import variance
from experiments.experiment import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (variance.EXPERIMENT,)}

"""Judge a generative model that learns task after task, without keeping any task's real samples.

Each task is an original: its real samples are seen once, when the task begins. From then on the model's own samples of
that task are the windows, one after each task learned, and the ratio real/generated is carried along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftline.divergences import DIVERGENCES
from driftline.estimators import ContinualDensityRatio, DensityRatio
from driftline.features import as_features
from driftline.metrics import fid, kid, neighbours, prd

__all__ = ["KEEPING", "ContinualEvaluation", "Reading"]

Floats = npt.NDArray[np.float64]

KEEPING = ("fid", "kid", "prd_f8", "prd_f1_8", "precision", "recall", "density", "coverage")
"""Measures that need the real samples of earlier tasks to be kept."""


class Reading(NamedTuple):
    """One measure of one task's samples after a task was learned.

    Attributes:
        after: the task learned last.
        task: whose samples are measured against its real ones.
        value, std_error, low, high: nan errors for measures that have none.
        floor: what the measure reads for two halves of the real samples.
    """

    after: str
    task: str
    measure: str
    value: float
    std_error: float
    low: float
    high: float
    floor: float


class ContinualEvaluation:
    """Divergences between real and generated samples of every task, task after task.

    Arguments:
        features: None for samples as they are, a function, a transformer, or one that moves: with ``partial_fit`` and
            ``transform_before`` (:class:`~driftline.features.ContinualVAE`), which is trained further whenever a task
            begins, on its real samples and the last generated ones of the tasks before.
        measures: names of divergences, and of :data:`KEEPING` if ``keep_real``.
        keep_real: keep real samples after all, for measures that need them; nothing else uses them.
        metric_features: of measures that keep real samples; as ``features`` if None. They must not move.
        estimator: an unfitted :class:`~driftline.ContinualDensityRatio` whose settings are taken.
        random_state: of subsets and clusters in KID and PRD.

    >>> rng = np.random.default_rng(0)
    >>> judge = ContinualEvaluation(measures=("reverse_kl",))
    >>> for t, name in enumerate("ab"):
    ...     _ = judge.task(name, rng.normal(5 * t, 1, (5000, 2)))
    ...     samples = {n: rng.normal(5 * k + 0.5 * (t - k), 1, (5000, 2)) for k, n in enumerate("ab"[: t + 1])}
    ...     _ = judge.update(samples)  # each task's samples have moved by 0.5 for every task learned since
    >>> found = judge.matrix("reverse_kl").loc["b"]
    >>> bool(abs(found["a"] - 0.25) < 0.05), bool(abs(found["b"]) < 0.01)
    (True, True)
    """

    def __init__(
        self,
        features: Any = None,
        *,
        measures: Sequence[str] = ("kl", "reverse_kl", "js", "hellinger"),
        keep_real: bool = False,
        metric_features: Any = None,
        estimator: ContinualDensityRatio | None = None,
        random_state: int = 0,
    ) -> None:
        unknown = [m for m in measures if m not in DIVERGENCES and m not in KEEPING]
        if unknown:
            raise ValueError(f"measure(s) {unknown} unknown: choose from {sorted(DIVERGENCES)} and {list(KEEPING)}")
        needing = [m for m in measures if m in KEEPING]
        if needing and not keep_real:
            raise ValueError(f"{needing} need the real samples of earlier tasks: keep_real=True keeps them")
        self.features = features
        self.measures = tuple(measures)
        self.keep_real = keep_real
        self.metric_features = metric_features
        self.estimator = estimator
        self.random_state = random_state
        self.readings: list[Reading] = []
        self._moving = hasattr(features, "partial_fit") and hasattr(features, "transform_before")
        self._encode = as_features(features)
        self._ratio: ContinualDensityRatio | None = None
        self._last: dict[str, Any] = {}  # generated samples, of which a moving encoder needs the last
        self._real: dict[str, Floats] = {}
        self._floors: dict[str, dict[str, float]] = {}
        self._waiting: str | None = None

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks that have begun."""
        return [] if self._ratio is None else self._ratio.originals_

    def task(self, name: str, real: Any) -> Self:
        """A task begins: its real samples, seen here and, unless ``keep_real``, never again."""
        if self._waiting is not None:
            raise ValueError(f"task {self._waiting!r} has begun: call update with samples of all tasks first")
        if name in self.tasks:
            raise ValueError(f"task {name!r} has been learned already: choose another name")
        if self._moving:
            self._train(real)
        rows = self._encode(real)
        kept = self._metric_rows(real, rows) if self.keep_real else rows
        floors = self._floors_of(rows, kept)
        if self._ratio is None:
            self._ratio = self._settings().fit(rows, name=name)
        else:
            self._ratio.add_original(rows, name)
        self._floors[name] = floors
        if self.keep_real:
            self._real[name] = kept
        self._waiting = name
        return self

    def _settings(self) -> ContinualDensityRatio:
        base = self.estimator if self.estimator is not None else ContinualDensityRatio(random_state=self.random_state)
        return ContinualDensityRatio(**base.get_params(deep=False))

    def _train(self, real: Any) -> None:
        """Train the encoder further on replay and the new task, and carry the ratio over to its features."""
        rng = np.random.default_rng([self.random_state, len(self._last)])
        replay = [np.asarray(x)[_some(len(x), len(real), rng)] for x in self._last.values()]
        self.features.partial_fit(np.concatenate([*replay, np.asarray(real)]))
        if self._ratio is not None:
            self._ratio.change_features({name: self._encode(x) for name, x in self._last.items()})

    def _floors_of(self, rows: Floats, kept: Floats) -> dict[str, float]:
        """What each measure reads between two halves of the real samples."""
        order = np.random.default_rng(self.random_state).permutation(len(rows))
        one, two = order[: len(order) // 2], order[len(order) // 2 :]
        params = self._settings().get_params(deep=False)
        static = DensityRatio(**{key: params[key] for key in DensityRatio().get_params(deep=False)})
        static.fit(rows[one], rows[two])
        floors = {measure: static.divergence(measure).value for measure in self.measures if measure in DIVERGENCES}
        return {**floors, **self._compared(kept[one], kept[two])} if self.keep_real else floors

    def _metric_rows(self, samples: Any, rows: Floats) -> Floats:
        return rows if self.metric_features is None else as_features(self.metric_features)(samples)

    def _compared(self, real: Floats, generated: Floats) -> dict[str, float]:
        """The measures of two samples that are both at hand."""
        found: dict[str, float] = {}
        if "fid" in self.measures:
            found["fid"] = fid(real, generated)
        if "kid" in self.measures:
            found["kid"] = kid(real, generated, random_state=self.random_state).mean
        if {"prd_f8", "prd_f1_8"} & set(self.measures):
            curve = prd(real, generated, random_state=self.random_state)
            found.update(prd_f8=curve.f_8, prd_f1_8=curve.f_1_8)
        if {"precision", "recall", "density", "coverage"} & set(self.measures):
            found.update(neighbours(real, generated)._asdict())
        return {measure: value for measure, value in found.items() if measure in self.measures}

    def update(self, generated: Mapping[str, Any]) -> Self:
        """The task has been learned: generated samples of every task so far, ``{task: samples}``."""
        if self._waiting is None or self._ratio is None:
            raise ValueError("no task has begun: call task with its real samples first")
        missing, extra = ([n for n in a if n not in b] for a, b in ((self.tasks, generated), (generated, self.tasks)))
        if missing or extra:
            raise ValueError(f"samples of every task are needed: missing {missing}, unknown {extra}")
        rows = {name: self._encode(generated[name]) for name in self.tasks}
        before = None
        if self._moving and self._last:
            before = {name: as_features(self.features.transform_before)(generated[name]) for name in self._last}
        self._ratio.partial_fit(rows, before=before)
        if self._moving:
            self._last = {name: np.array(generated[name]) for name in self.tasks}
        for name in self.tasks:
            self._read(name, generated[name], rows[name])
        self._waiting = None
        return self

    def _read(self, name: str, samples: Any, rows: Floats) -> None:
        assert self._ratio is not None
        assert self._waiting is not None
        compared = self._compared(self._real[name], self._metric_rows(samples, rows)) if self.keep_real else {}
        for measure in self.measures:
            floor = self._floors[name][measure]
            if measure in compared:
                errors = (float("nan"),) * 3
                self.readings.append(Reading(self._waiting, name, measure, compared[measure], *errors, floor))
                continue
            e = self._ratio.divergence(measure, original=name)
            self.readings.append(Reading(self._waiting, name, measure, e.value, e.std_error, e.low, e.high, floor))

    def table(self) -> pd.DataFrame:
        """All readings, one row each."""
        return pd.DataFrame(self.readings, columns=list(Reading._fields))

    def matrix(self, measure: str) -> pd.DataFrame:
        """Tasks learned (rows) by task measured (columns)."""
        part = self._of(measure)
        return part.pivot(index="after", columns="task", values="value").reindex(self.tasks)[self.tasks]

    def average(self) -> pd.DataFrame:
        """The mean over tasks after each task learned, a column a measure."""
        means = self.table().groupby(["after", "measure"], sort=False)["value"].mean().unstack()
        return means.reindex([t for t in self.tasks if t in means.index])[list(self.measures)]

    def forgetting(self, measure: str) -> pd.Series:
        """How much worse each task's samples have become since it was learned; a divergence that has grown is positive.

        For scores of which more is better (PRD, precision, recall, density, coverage), a loss is positive too.
        """
        sign = -1.0 if measure in KEEPING[2:] else 1.0
        matrix = self.matrix(measure)
        last = matrix.dropna(how="all").iloc[-1]
        return pd.Series({name: sign * (last[name] - matrix.at[name, name]) for name in self.tasks}, name=measure)

    def _of(self, measure: str) -> pd.DataFrame:
        if measure not in self.measures:
            raise ValueError(f"measure={measure!r} was not asked for: choose from {list(self.measures)}")
        return self.table().query("measure == @measure")


def _some(have: int, want: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.permutation(have)[:want]

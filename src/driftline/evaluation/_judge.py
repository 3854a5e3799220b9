"""Judge a generative model that learns task after task, without keeping any task's real samples.

Each task is an original: its real samples are seen once, when the task begins. From then on the model's own samples of
that task are the windows, one after each task learned, and the ratio real/generated is carried along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftline._inputs import MIN_ROWS, resolve_seed
from driftline.estimators import ContinualDensityRatio, DensityRatio
from driftline.evaluation import _files as evaluation_files
from driftline.evaluation import _scores as scores
from driftline.evaluation._comparison import compare
from driftline.evaluation._samples import Form, check_samples, encoded
from driftline.evaluation._scores import KEEPING, MEASURES, Reading
from driftline.evaluation._state import EvaluationState, independent
from driftline.features import as_features
from driftline.files import StateFileError
from driftline.fitting import Objective
from driftline.inference import DIVERGENCES, Doubt

__all__ = ["KEEPING", "ContinualEvaluation", "Reading"]

Floats = npt.NDArray[np.float64]


class ContinualEvaluation:
    """Divergences between real and generated samples of every task, task after task.

    Arguments:
        features: None for samples as they are, a function, a transformer, or features that move, with ``partial_fit``
            and ``transform_before`` (:class:`~driftline.features.ContinualVAE`): they are trained further whenever a
            task begins, on its real samples and the last generated samples of earlier tasks. The object passed is left
            as it is: each task trains a copy (``features.snapshot()`` if there is such a method, else
            ``copy.deepcopy``), which is then the attribute ``features``. A snapshot and what it was taken of must not
            change each other when either is trained.
        hold_features: whether to keep a snapshot of moving features for each task, in which its ratio stays; otherwise
            all ratios are carried over to the newest features, as in the paper. An encoder that has since seen only
            generated samples of a task treats real ones as foreign, and a ratio in its features misses what real
            samples would show.
        measures: names of divergences and, with ``keep_real``, of measures in :data:`KEEPING`.
        keep_real: whether to keep real samples after all, for measures that need them; nothing else uses them.
        metric_features: features for measures that keep real samples; ``features`` if None. They must not move.
        estimator: unfitted :class:`~driftline.estimators.ContinualDensityRatio` whose settings are used.
        random_state: seed of the subsets and clusters in KID and PRD, and of the halves for floors; None for a fresh
            one.

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
        hold_features: bool = True,
        keep_real: bool = False,
        metric_features: Any = None,
        estimator: ContinualDensityRatio | None = None,
        random_state: int | None = 0,
    ) -> None:
        measures = (measures,) if isinstance(measures, str) else tuple(measures)
        unknown = [m for m in measures if m not in MEASURES]
        if unknown or not measures:
            raise ValueError(f"measure(s) {unknown} unknown: choose from {sorted(DIVERGENCES)} and {list(KEEPING)}")
        if len(set(measures)) < len(measures):
            raise ValueError(f"measures={measures} names one twice: name each once")
        if estimator is not None and not isinstance(estimator, ContinualDensityRatio):
            raise TypeError(f"estimator must be a ContinualDensityRatio, not a {type(estimator).__name__}")
        needing = [m for m in measures if m in KEEPING]
        if needing and not keep_real:
            raise ValueError(f"{needing} need the real samples of earlier tasks: keep_real=True keeps them")
        if estimator is not None and estimator.step != "every" and not keep_real:
            raise ValueError(f"step={estimator.step!r} holds real samples for later steps: keep_real=True allows that")
        self.measures = measures
        self.hold_features = hold_features
        self.keep_real = keep_real
        self.metric_features = metric_features
        self.estimator = estimator
        self.random_state = resolve_seed(random_state)
        self._moving = hasattr(features, "partial_fit") and hasattr(features, "transform_before")
        self._state = EvaluationState(features)

    @property
    def features(self) -> Any:
        """The features: those passed or, if they move, the copy that was trained last."""
        return self._state.features

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks that have begun."""
        return list(self._state.floors)

    @property
    def readings(self) -> list[Reading]:
        """All readings, in the order of tasks learned."""
        return list(self._state.readings)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons not to trust the last floors (after ``task``) or readings (after ``update``); not saved in files."""
        return self._state.doubts

    def task(self, name: str, real: Any) -> Self:
        """Begin a task with its real samples, which are seen here and, unless ``keep_real``, never again.

        Call it before or after the model is trained on the task, but before ``update``. After an error in either, the
        evaluation and its features are as they were before.
        """
        state = self._state
        if state.waiting is not None:
            raise ValueError(f"task {state.waiting!r} has begun: call update with samples of all tasks first")
        if not isinstance(name, str) or not name:
            raise ValueError(f"name={name!r} must be a non-empty string")
        if name in self.tasks:
            raise ValueError(f"task {name!r} has been learned already: choose another name")
        what = f"real samples of task {name!r}"
        real, form = self._checked(real, what, 2 * MIN_ROWS)
        if self._moving:
            state = self._trained(name, real)
        rows = state.encoded(name, real, what)
        kept = self._metric_rows(real, rows, what) if self.keep_real else rows
        floors, doubts = self._floors_of(rows, kept)
        if state.ratio is None:
            ratio = self._settings().fit(rows, name=name)
        else:
            ratio = state.ratio.snapshot().add_original(rows, name)
        self._state = state._replace(
            ratio=ratio,
            floors={**state.floors, name: floors},
            real={**state.real, name: kept} if self.keep_real else state.real,
            form=form,
            waiting=name,
            doubts=doubts,
        )
        return self

    def _checked(self, samples: Any, what: str, least: int) -> tuple[Any, Form]:
        return check_samples(samples, what, least=least, form=self._state.form, as_array=self._moving)

    def _settings(self) -> ContinualDensityRatio:
        base = self.estimator if self.estimator is not None else ContinualDensityRatio(random_state=self.random_state)
        return ContinualDensityRatio(**base.get_params(deep=False))

    def _trained(self, name: str, real: Any) -> EvaluationState:
        """Return the state with features trained further on replay and the new task, and the ratio carried over."""
        state = self._state
        rng = np.random.default_rng([self.random_state, len(state.last)])
        replay = [x[rng.permutation(len(x))[: len(real)]] for x in state.last.values()]
        features = independent(state.features)
        features.partial_fit(np.concatenate([*replay, real]))
        if self.hold_features:
            return state._replace(features=features, held={**state.held, name: independent(features)})
        if state.ratio is None:
            return state._replace(features=features)
        encode = as_features(features)
        ratio = state.ratio.snapshot().change_features({task: encode(x) for task, x in state.last.items()})
        return state._replace(features=features, ratio=ratio)

    def encode(self, task: str, samples: Any) -> Floats:
        """Encode samples in the features of a task's ratio, (n, D)."""
        if task not in self.tasks:
            raise ValueError(f"task {task!r} has not begun: choose one of {self.tasks}")
        what = f"samples for task {task!r}"
        return self._state.encoded(task, check_samples(samples, what, least=1, form=self._state.form)[0], what)

    def _floors_of(self, rows: Floats, kept: Floats) -> tuple[dict[str, float], tuple[Doubt, ...]]:
        """Compute each measure between two halves of the real samples, and the doubts about that."""
        order = np.random.default_rng(self.random_state).permutation(len(rows))
        one, two = order[: len(order) // 2], order[len(order) // 2 :]
        params = self._settings().get_params(deep=False)
        static = DensityRatio(**{key: params[key] for key in DensityRatio().get_params(deep=False)})
        static.fit(rows[one], rows[two])
        found = {measure: static.divergence(measure) for measure in self.measures if measure in DIVERGENCES}
        doubts = (*static.info_.doubts, *(doubt for estimate in found.values() for doubt in estimate.doubts))
        floors = {measure: estimate.value for measure, estimate in found.items()}
        return {**floors, **self._compared(kept[one], kept[two])} if self.keep_real else floors, doubts

    def _metric_rows(self, samples: Any, rows: Floats, what: str) -> Floats:
        return rows if self.metric_features is None else encoded(as_features(self.metric_features), samples, what)

    def _compared(self, real: Floats, generated: Floats) -> dict[str, float]:
        return compare(real, generated, self.measures, self.random_state)

    def update(self, generated: Mapping[str, Any]) -> Self:
        """Measure generated samples of every task so far, ``{task: samples}``, once the new task has been learned."""
        state = self._state
        if state.waiting is None or state.ratio is None:
            raise ValueError("no task has begun: call task with its real samples first")
        if not isinstance(generated, Mapping):
            raise TypeError(f"pass samples of every task, {{task: samples}}, not a {type(generated).__name__}")
        missing, extra = ([n for n in a if n not in b] for a, b in ((self.tasks, generated), (generated, self.tasks)))
        if missing or extra:
            raise ValueError(f"samples of every task are needed: missing {missing}, unknown {extra}")
        what = {name: f"generated samples of task {name!r}" for name in self.tasks}
        samples = {name: self._checked(generated[name], what[name], MIN_ROWS)[0] for name in self.tasks}
        rows = {name: state.encoded(name, samples[name], what[name]) for name in self.tasks}
        before = None
        if self._moving and state.last and not self.hold_features:
            old = as_features(state.features.transform_before)
            before = {name: encoded(old, samples[name], what[name]) for name in state.last}
        ratio = state.ratio.snapshot().partial_fit(rows, before=before)
        readings, doubts = [*state.readings], [d for about in ratio.info_.originals.values() for d in about.doubts]
        for name in self.tasks:
            kept = self._metric_rows(samples[name], rows[name], what[name]) if self.keep_real else None
            for reading, about in self._read(ratio, name, kept):
                readings.append(reading)
                doubts.extend(about)
        self._state = state._replace(
            ratio=ratio,
            readings=tuple(readings),
            last={name: np.array(samples[name]) for name in self.tasks} if self._moving else state.last,
            waiting=None,
            doubts=tuple(doubts),
        )
        return self

    def _read(
        self, ratio: ContinualDensityRatio, name: str, generated: Floats | None
    ) -> Iterator[tuple[Reading, tuple[Doubt, ...]]]:
        """Yield each measure of a task, with the doubts about it; ``generated`` is for those that keep real samples."""
        state = self._state
        assert state.waiting is not None
        compared = {} if generated is None else self._compared(state.real[name], generated)
        for measure in self.measures:
            floor = state.floors[name][measure]
            if measure in compared:
                errors = (float("nan"),) * 3
                yield Reading(state.waiting, name, measure, compared[measure], *errors, floor), ()
                continue
            e = ratio.divergence(measure, original=name)
            yield Reading(state.waiting, name, measure, e.value, e.std_error, e.low, e.high, floor), e.doubts

    def table(self) -> pd.DataFrame:
        """Return all readings, one row each, for figures and scores such as :func:`driftline.evaluation.averages`."""
        return pd.DataFrame(self.readings, columns=list(Reading._fields))

    def matrix(self, measure: str) -> pd.DataFrame:
        """Return values by task learned (rows) and task measured (columns)."""
        return scores.matrix(self._with(measure), measure)

    def average(self, *, return_std: bool = False) -> Any:
        """Return means over tasks after each task learned, a column per measure; with ``return_std`` also their errors.

        See :func:`driftline.evaluation.averages` for what these errors cover.
        """
        table = self.table()
        found = scores.averages(table)

        def wide(column: str) -> pd.DataFrame:
            pivoted = found.pivot(index="after", columns="measure", values=column)
            return pivoted.reindex(index=scores.learned(table), columns=list(self.measures))

        return (wide("value"), wide("std_error")) if return_std else wide("value")

    def forgetting(self, measure: str) -> pd.Series:
        """Return how much worse each task's samples have become since it was learned; a loss is positive.

        That is a divergence that has grown, or a score that has fallen where higher is better (PRD, precision, recall,
        density, coverage).
        """
        return scores.forgetting(self._with(measure), measure)

    def _with(self, measure: str) -> pd.DataFrame:
        if measure not in self.measures:
            raise ValueError(f"measure={measure!r} was not asked for: choose from {list(self.measures)}")
        return self.table()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the next task needs to one file, atomically (safetensors with a JSON header, no pickle).

        It holds generated samples and summaries, and real samples only with ``keep_real``. Between ``task`` and
        ``update`` the real samples of the new task are still held, so saving raises an error then. driftline's own
        features are in the file; others have to be passed to ``load`` again.
        """
        state = self._state
        if state.ratio is None:
            raise ValueError("there is nothing to save: no task has begun")
        if state.waiting is not None:
            raise ValueError(
                f"task {state.waiting!r} has begun and its real samples are held until update: save before the task "
                "begins or after update"
            )
        plain = ("hold_features", "keep_real", "random_state")
        settings = {"measures": list(self.measures), **{key: getattr(self, key) for key in plain}}
        evaluation_files.write(path, evaluation_files.Parts(settings, self.metric_features, state))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        features: Any = None,
        metric_features: Any = None,
        model: Any = None,
        objective: Objective | None = None,
        device: str | None = None,
    ) -> Self:
        """Load a saved evaluation; a damaged or foreign file raises :class:`~driftline.files.StateFileError`.

        Arguments:
            features, metric_features: the features again, if they were not driftline's own, as the attributes were
                when the evaluation was saved.
            model, objective: the estimator's model and objective, if they were callables.
            device: device to continue on, if not the one it was saved from.
        """
        given = {"features": features, "metric_features": metric_features}
        parts = evaluation_files.read(path, given, device, model=model, objective=objective)
        ratio = parts.state.ratio
        assert ratio is not None
        estimator = ContinualDensityRatio(**ratio.get_params(deep=False))
        given |= {"features": parts.state.features, "metric_features": parts.metric_features}
        try:
            judge = cls(**given, estimator=estimator, **parts.settings)
        except (TypeError, ValueError) as error:
            raise StateFileError(f"{os.fspath(path)}: its settings do not fit ({error})") from error
        judge._state = parts.state
        judge._check_features(ratio, path)
        return judge

    def _check_features(self, ratio: ContinualDensityRatio, path: str | os.PathLike[str]) -> None:
        """Check that moving features encode the last samples into the rows that the ratio stands on."""
        last = self._state.last
        if bool(last) != self._moving:
            raise ValueError(
                f"{os.fspath(path)}: features {'do not move' if last else 'move'} now, unlike when it was saved"
            )
        for name, samples in last.items():
            found, held = self.encode(name, samples), ratio.current_window(name)
            if found.shape != held.shape or not np.allclose(found, held, rtol=1e-3, atol=1e-3 * held.std()):
                raise ValueError(f"{os.fspath(path)}: these features are not in the state they had when it was saved")

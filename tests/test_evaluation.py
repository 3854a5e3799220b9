"""Judging generators task after task: the truth without keeping it, forgetting seen, mistakes named."""

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.evaluation import KEEPING, ContinualEvaluation

TASKS = ("a", "b", "c")
STEP = 0.15  # how far a task's samples move with every task learned after it, in standard deviations
N, D = 3000, 3


def real(k, rng, n=N):
    return rng.normal(4.0 * k, 1.0, (n, D))


def generated(k, t, rng, step=STEP, n=N):
    return rng.normal(4.0 * k + step * (t - k + 1), 1.0, (n, D))


def judged(judge, seed=0, step=STEP):
    rng = np.random.default_rng(seed)
    for t, name in enumerate(TASKS):
        judge.task(name, real(t, rng))
        judge.update({TASKS[k]: generated(k, t, rng, step) for k in range(t + 1)})
    return judge


@pytest.fixture(scope="module")
def judge():
    return judged(ContinualEvaluation(measures=("reverse_kl", "js", *KEEPING), keep_real=True))


def test_divergences_are_the_truth_without_real_samples(seed):
    """KL of two unit Gaussians a distance apart is half its square; tolerance from the estimate's own error."""
    found = judged(ContinualEvaluation(measures=("reverse_kl",)), seed).table()
    truth = [D * 0.5 * (STEP * (TASKS.index(r.after) - TASKS.index(r.task) + 1)) ** 2 for r in found.itertuples()]
    assert len(found) == 6
    assert (abs(found.value - truth) < 4 * found.std_error).all()
    assert (found.low < found.value).all()


def test_matrix_is_task_by_original(judge):
    matrix = judge.matrix("reverse_kl")
    assert list(matrix.index) == list(matrix.columns) == list(TASKS)
    assert np.isnan(matrix.at["a", "b"])
    assert matrix.at["c", "a"] > matrix.at["b", "a"] > matrix.at["a", "a"] > 0


def test_averages_are_means_over_tasks_learned(judge):
    average = judge.average()
    assert list(average.columns) == list(judge.measures)
    assert average.at["b", "js"] == pytest.approx(judge.matrix("js").loc["b"].mean())


def test_forgetting_is_positive_whichever_way_a_measure_counts(judge):
    for measure in ("reverse_kl", "js", "fid", "precision", "coverage"):
        lost = judge.forgetting(measure)
        assert lost["a"] > 0, measure
        assert lost["c"] == 0


def test_floors_are_what_real_against_real_reads(judge):
    floors = judge.table().groupby("measure").floor.max()
    assert floors["reverse_kl"] < 0.01
    assert floors["fid"] < 0.05
    assert judge.table().groupby("measure").floor.min()["precision"] > 0.8


def test_a_model_that_forgets_nothing_is_told_from_one_that_does():
    still = judged(ContinualEvaluation(measures=("js",)), seed=1, step=0.0)
    moving = judged(ContinualEvaluation(measures=("js",)), seed=1)
    assert abs(still.forgetting("js")["a"]) < 0.01 < moving.forgetting("js")["a"]


def test_features_may_move():
    """A rotation that changes with every task stands for an encoder; the truth does not depend on it."""

    class Turning:
        def __init__(self):
            self.angle = 0.0

        def _turn(self, x, angle):
            c, s = np.cos(angle), np.sin(angle)
            return np.column_stack([c * x[:, 0] - s * x[:, 1], s * x[:, 0] + c * x[:, 1], x[:, 2]])

        def partial_fit(self, x):
            self.angle += 0.7
            return self

        def transform(self, x):
            return self._turn(x, self.angle)

        def transform_before(self, x):
            return self._turn(x, self.angle - 0.7)

    estimator = ContinualDensityRatio(model="quadratic-full", random_state=0)
    still = judged(ContinualEvaluation(measures=("reverse_kl",), estimator=estimator), seed=2)
    moving = judged(ContinualEvaluation(Turning(), measures=("reverse_kl",), estimator=estimator), seed=2)
    np.testing.assert_allclose(moving.table().value, still.table().value, atol=2e-3)


def test_without_keep_real_nothing_real_is_kept():
    judge = judged(ContinualEvaluation(measures=("js",)))
    arrays = [
        v for held in vars(judge).values() if isinstance(held, dict) for v in held.values() if not isinstance(v, dict)
    ]
    assert arrays == []
    kept = judged(ContinualEvaluation(measures=("js", "fid"), keep_real=True))
    assert [len(v) for v in kept._real.values()] == [N] * 3


def test_mistakes_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"\['fid'\] need the real samples"):
        ContinualEvaluation(measures=("js", "fid"))
    with pytest.raises(ValueError, match=r"\['inception'\] unknown"):
        ContinualEvaluation(measures=("inception",))
    judge = ContinualEvaluation(measures=("js",))
    with pytest.raises(ValueError, match="no task has begun"):
        judge.update({"a": real(0, rng)})
    judge.task("a", real(0, rng))
    with pytest.raises(ValueError, match="task 'a' has begun"):
        judge.task("b", real(1, rng))
    with pytest.raises(ValueError, match=r"missing \['a'\], unknown \['z'\]"):
        judge.update({"z": real(0, rng)})
    judge.update({"a": real(0, rng)})
    with pytest.raises(ValueError, match="learned already"):
        judge.task("a", real(0, rng))
    with pytest.raises(ValueError, match="measure='kl' was not asked for"):
        judge.matrix("kl")

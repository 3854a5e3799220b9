"""Judging generators task after task: the truth without keeping it, forgetting seen, mistakes named."""

import threading
import warnings
from collections.abc import Iterable, Mapping
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

from driftline import ContinualDensityRatio, DensityRatio, StateFileError, Training, UntrustedEstimateWarning
from driftline.evaluation import ContinualEvaluation
from driftline.evaluation._scores import KEEPING
from driftline.features import ContinualVAE

TASKS = ("a", "b", "c")
STEP = 0.15  # shift of a task's samples with every task learned after it, in standard deviations
N, D = 3000, 3


def real(k, rng, n=N):
    return rng.normal(4.0 * k, 1.0, (n, D))


def generated(k, t, rng, step=STEP, n=N):
    return rng.normal(4.0 * k + step * (t - k + 1), 1.0, (n, D))


def judged(judge, seed=0, step=STEP, n=N, tasks=TASKS):
    rng = np.random.default_rng(seed)
    for t, name in enumerate(tasks):
        judge.task(name, real(t, rng, n))
        judge.update({tasks[k]: generated(k, t, rng, step, n) for k in range(t + 1)})
    return judge


@pytest.fixture(scope="module")
def judge():
    measures = ("reverse_kl", "js", *(measure for measure in KEEPING if measure != "kid"))  # kid is slow
    return judged(ContinualEvaluation(measures=measures, keep_real=True))


class Turning:
    """Rotation that changes with every task, in place of an encoder; divergences do not depend on it."""

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


def test_divergences_are_the_truth_without_real_samples(seed):
    """KL of two unit Gaussians is half their squared distance; the tolerance comes from the estimate's own error."""
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


def test_forgetting_is_about_zero_only_for_a_model_that_forgets_nothing():
    still = judged(ContinualEvaluation(measures=("js",)), seed=1, step=0.0)
    moving = judged(ContinualEvaluation(measures=("js",)), seed=1)
    assert abs(still.forgetting("js")["a"]) < 0.01 < moving.forgetting("js")["a"]


@pytest.mark.parametrize("hold", [True, False])
def test_features_may_move(hold):
    estimator = ContinualDensityRatio(model="quadratic-full", random_state=0)
    still = judged(ContinualEvaluation(measures=("reverse_kl",), estimator=estimator), seed=2)
    moving = ContinualEvaluation(Turning(), measures=("reverse_kl",), estimator=estimator, hold_features=hold)
    np.testing.assert_allclose(judged(moving, seed=2).table().value, still.table().value, atol=2e-3)
    point = np.array([[1.0, 0.0, 0.0]])
    turned = [moving.encode(name, point)[0, 1] for name in TASKS]
    assert turned == pytest.approx(np.sin([0.7, 1.4, 2.1] if hold else [2.1] * 3))
    with pytest.raises(ValueError, match=r"task 'z' has not begun: choose one of \['a', 'b', 'c'\]"):
        moving.encode("z", point)


class Blinding(Turning):
    """Encoder that stops seeing the first column once it is trained further."""

    def transform(self, x):
        return x * [float(self.angle < 1.0), 1.0, 1.0]

    def transform_before(self, x):
        return x * [float(self.angle < 1.7), 1.0, 1.0]


def test_held_features_see_what_newer_ones_no_longer_do():
    """A model drifts only in the first column, which newer features do not see, as the control confirms."""
    rng, judge = np.random.default_rng(0), ContinualEvaluation(Blinding(), measures=("js",))
    for t, name in enumerate("ab"):
        judge.task(name, rng.standard_normal((2000, 3)))
        samples = {n: rng.normal([0.5 * (t + 1), 0.0, 0.0], 1.0, (2000, 3)) for n in "ab"[: t + 1]}
        judge.update(samples)
    assert judge.matrix("js").at["b", "a"] == pytest.approx(js_of_gaussians(1.0), rel=0.15)
    newest = judge.features.transform(rng.standard_normal((2000, 3))), judge.features.transform(samples["a"])
    assert DensityRatio().fit(*newest).divergence("js").value < 0.02


def js_of_gaussians(distance):
    """Jensen-Shannon divergence of two unit Gaussians, by quadrature."""
    x = np.linspace(-10, 11, 20_001)
    p, q = (np.exp(-0.5 * (x - m) ** 2) / np.sqrt(2 * np.pi) for m in (0.0, distance))
    middle = 0.5 * (p + q)
    return float((0.5 * p * np.log(p / middle) + 0.5 * q * np.log(q / middle)).sum() * (x[1] - x[0]))


def numbers_of(thing, seen):
    """Yield all numbers in arrays and tensors reachable from a thing through attributes and containers."""
    if id(thing) in seen or isinstance(thing, type | ModuleType):
        return
    seen[id(thing)] = thing
    if isinstance(thing, torch.Tensor):
        thing = thing.detach().cpu().numpy()
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        base = thing if thing.base is None or not isinstance(thing.base, np.ndarray) else thing.base
        yield np.asarray(base, dtype=float).ravel()
        return
    parts = [thing] if isinstance(thing, list | tuple | set | np.ndarray) else []
    parts += [thing.keys(), thing.values()] if isinstance(thing, Mapping) else []
    parts += [vars(thing).values()] if hasattr(thing, "__dict__") else []
    parts += [getattr(thing, name) for name in getattr(type(thing), "__slots__", ()) if hasattr(thing, name)]
    parts += [[cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]]
    for part in (p for some in parts for p in (some if isinstance(some, Iterable) else [some])):
        yield from numbers_of(part, seen)


def held_of(rows, judge):
    """Return the shares of real values that a judge holds: as they are, and standardised."""
    numbers = np.concatenate([np.zeros(1), *numbers_of(judge, {})])
    return [np.isin(values.round(9), numbers.round(9)).mean() for values in (rows, (rows - rows.mean(0)) / rows.std(0))]


def test_without_keep_real_nothing_real_is_kept():
    """Values of a continuous distribution do not recur by chance; before update, and with keep_real, they are found."""
    rng = np.random.default_rng(0)
    rows, later, judges = real(0, rng, 400), real(1, rng, 400), []
    for options in ({"measures": ("js",)}, {"measures": ("js", "fid"), "keep_real": True}):
        judge = ContinualEvaluation(**options).task("a", rows)
        assert held_of(rows, judge)[0] == 1
        judge.update({"a": generated(0, 0, rng, n=400)}).task("b", later)
        judges.append(judge.update({"a": generated(0, 1, rng, n=400), "b": generated(1, 1, rng, n=400)}))
    for found in (rows, later):
        assert max(held_of(found, judges[0])) < 0.01  # quantiles may equal a value
        assert held_of(found, judges[1])[0] == 1
    for leak in (rows.copy(), (rows - rows.mean(0)) / rows.std(0)):
        state = judges[0]._state.ratio._state
        track = state.tracks["a"]._replace(step_log_ratio=leak)
        judges[0]._state.ratio._state = state._replace(tracks={**state.tracks, "a": track})
        assert max(held_of(rows, judges[0])) == 1


def test_frames_have_the_columns_of_the_first_task(tmp_path):
    rng = np.random.default_rng(0)

    def frame(columns="xyz"):
        return pd.DataFrame(real(0, rng, 300), columns=list("xyz"))[list(columns)]

    order = r"do not have the columns of the first task: a different order: \['z', 'y', 'x'\] instead of"
    for features in (None, np.asarray, Turning()):
        judge = ContinualEvaluation(features, measures=("js",), hold_features=False).task("a", frame())
        with pytest.raises(ValueError, match="generated samples of task 'a' " + order):
            judge.update({"a": frame("zyx")})
        judge.update({"a": frame()}).save(tmp_path / "judge")
        for one in (judge, ContinualEvaluation.load(tmp_path / "judge", features=judge.features)):
            with pytest.raises(ValueError, match="real samples of task 'b' " + order):
                one.task("b", frame("zyx"))
            with pytest.raises(ValueError, match=r"missing \['y', 'z'\]"):
                one.encode("a", frame("x"))
            one.task("b", frame()).update({"a": frame().to_numpy(), "b": frame()})  # arrays have no names


def test_mistakes_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"\['fid'\] need the real samples"):
        ContinualEvaluation(measures=("js", "fid"))
    with pytest.raises(ValueError, match=r"\['inception'\] unknown"):
        ContinualEvaluation(measures=("inception",))
    with pytest.raises(ValueError, match="names one twice"):
        ContinualEvaluation(measures=("js", "js"))
    with pytest.raises(TypeError, match="must be a ContinualDensityRatio, not a DensityRatio"):
        ContinualEvaluation(estimator=DensityRatio())
    with pytest.raises(ValueError, match="random_state=-1 must be None or an integer"):
        ContinualEvaluation(random_state=-1)
    judge = ContinualEvaluation(measures=("js",))
    for nothing in (5, np.array(5.0), None):
        with pytest.raises(TypeError, match="real samples of task 'a': pass an array"):
            judge.task("a", nothing)
    with pytest.raises(ValueError, match="no task has begun"):
        judge.update({"a": real(0, rng)})
    judge.task("a", real(0, rng))
    with pytest.raises(ValueError, match="task 'a' has begun"):
        judge.task("b", real(1, rng))
    with pytest.raises(ValueError, match=r"missing \['a'\], unknown \['z'\]"):
        judge.update({"z": real(0, rng)})
    with pytest.raises(TypeError, match=r"\{task: samples\}, not a ndarray"):
        judge.update(real(0, rng))
    judge.update({"a": real(0, rng)})
    with pytest.raises(ValueError, match="learned already"):
        judge.task("a", real(0, rng))
    with pytest.raises(ValueError, match="measure='kl' was not asked for"):
        judge.matrix("kl")


@pytest.mark.parametrize("name", [0, "", None])
def test_names_are_checked_before_features_are_trained(name):
    class Untrainable(Turning):
        def partial_fit(self, x):
            raise AssertionError

    with pytest.raises(ValueError, match=f"name={name!r} must be a non-empty string"):
        ContinualEvaluation(Untrainable(), measures=("js",)).task(name, real(0, np.random.default_rng(0), 100))


def test_a_fresh_seed_will_do_for_features_that_move():
    judge = judged(ContinualEvaluation(Turning(), measures=("js",), random_state=None), n=100, tasks=("a",))
    assert judge.table().value.notna().all()


def test_every_measure_can_be_asked_for():
    every = judged(ContinualEvaluation(measures=("kl", *KEEPING), keep_real=True), n=200, tasks=("a",))
    assert list(every.table().measure) == ["kl", *KEEPING]
    assert every.table().value.notna().all()
    assert list(every.average().columns) == ["kl", *KEEPING]


@pytest.mark.slow
def test_errors_of_means_are_those_of_independent_tasks():
    """Over 200 replicates of three tasks, squared z-scores of the mean average 1 with a standard error of 0.1, and
    correlations between tasks 0 with one of 0.07; errors that were fully dependent would give 3 and 1."""
    truth = np.mean([D * 0.5 * (STEP * k) ** 2 for k in (1, 2, 3)])
    estimator = ContinualDensityRatio(model="linear", random_state=0)
    scores, alone = [], []
    for seed in range(200):
        found = judged(ContinualEvaluation(measures=("reverse_kl",), estimator=estimator), seed, n=400)
        means, errors = found.average(return_std=True)
        scores.append((means.at["c", "reverse_kl"] - truth) / errors.at["c", "reverse_kl"])
        alone.append(found.table().query("after == 'c'").value.to_numpy())
    assert 0.7 < np.mean(np.square(scores)) < 1.3
    assert np.abs(np.corrcoef(np.transpose(alone))[np.triu_indices(3, 1)]).max() < 0.22


def test_means_without_errors_say_so(judge):
    errors = judge.average(return_std=True)[1]
    assert errors["js"].notna().all()
    assert errors["fid"].isna().all()


def test_a_task_that_waits_is_not_in_tables():
    rng = np.random.default_rng(0)
    fresh = ContinualEvaluation(measures=("js",))
    assert fresh.matrix("js").empty
    assert fresh.average().empty
    assert fresh.forgetting("js").empty
    fresh.task("a", real(0, rng)).update({"a": real(0, rng)}).task("b", real(1, rng))
    assert list(fresh.matrix("js").columns) == list(fresh.forgetting("js").index) == ["a"]


def same_after_another_task(one, other, samples):
    """Continue both with the same task and check that their readings agree."""
    for each in (one, other):
        each.task("z", samples["z"]).update({name: samples[name] for name in each.tasks})
    assert one.table().equals(other.table())


def test_a_resumed_evaluation_gives_the_same_numbers(tmp_path):
    for options in ({"measures": ("kl", "js")}, {"measures": ("js", "fid"), "keep_real": True}):
        going = judged(ContinualEvaluation(random_state=3, **options), n=400)
        going.save(tmp_path / "judge")
        resumed = ContinualEvaluation.load(tmp_path / "judge")
        assert resumed.tasks == going.tasks
        assert resumed.table().equals(going.table())
        rng = np.random.default_rng(5)
        samples = {name: real(k, rng, 400) for k, name in enumerate((*TASKS, "z"))}
        same_after_another_task(going, resumed, samples)


@pytest.mark.parametrize("hold", [True, False])
def test_moving_features_are_resumed(tmp_path, hold):
    rng = np.random.default_rng(0)
    samples = {name: rng.random((200, 4, 4)) ** power for name, power in (("a", 1.0), ("b", 1.5), ("z", 2.0))}
    training = Training(epochs=2, min_epochs=1)
    vae = ContinualVAE(encoder=(8,), decoder=(8,), latent=2, training=training, device="cpu", random_state=0)
    going = ContinualEvaluation(vae, measures=("js",), hold_features=hold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        for names in ("a", "ab"):
            going.task(names[-1], samples[names[-1]]).update({name: samples[name] for name in names})
        going.save(tmp_path / "judge")
        same_after_another_task(going, ContinualEvaluation.load(tmp_path / "judge"), samples)


def test_features_of_ones_own_are_asked_for_again(tmp_path):
    with pytest.raises(ValueError, match=r"your own features \(Turning\) is held for each task.*hold_features=False"):
        judged(ContinualEvaluation(Turning(), measures=("js",)), n=300).save(tmp_path / "judge")
    going = judged(ContinualEvaluation(Turning(), measures=("js",), hold_features=False), n=300)
    going.save(tmp_path / "judge")
    with pytest.raises(ValueError, match=r"your own features \(Turning\): pass them, load\(path, features=...\)"):
        ContinualEvaluation.load(tmp_path / "judge")
    with pytest.raises(ValueError, match="not in the state they had when it was saved"):
        ContinualEvaluation.load(tmp_path / "judge", features=Turning())
    again = Turning()
    again.angle = going.features.angle
    rng = np.random.default_rng(5)
    samples = {name: real(k, rng, 300) for k, name in enumerate((*TASKS, "z"))}
    same_after_another_task(going, ContinualEvaluation.load(tmp_path / "judge", features=again), samples)
    judged(ContinualEvaluation(measures=("js",)), n=300).save(tmp_path / "plain")
    with pytest.raises(ValueError, match="saved without features"):
        ContinualEvaluation.load(tmp_path / "plain", features=again)


def numbers_in(path, folder):
    """Return all numbers in a file and in the files stored in it."""
    found = []
    with safe_open(path, framework="np") as file:
        for key in file.keys():  # noqa: SIM118
            value = file.get_tensor(key)
            if value.dtype == np.uint8:
                (folder / "inner").write_bytes(value.tobytes())
                found.append(numbers_in(folder / "inner", folder))
            else:
                found.append(value.astype(float).ravel())
    return np.concatenate(found)


def test_the_file_has_real_samples_only_where_they_are_kept(tmp_path):
    """Every value of the real samples is looked for; values of a continuous distribution do not recur by chance."""
    rng = np.random.default_rng(0)
    rows = real(0, rng, 300)
    for keep in (False, True):
        judge = ContinualEvaluation(measures=("js",), keep_real=keep).task("a", rows)
        with pytest.raises(ValueError, match="'a' has begun and its real samples are held"):
            judge.save(tmp_path / "judge")
        judge.update({"a": generated(0, 0, rng, n=300)}).save(tmp_path / "judge")
        held = np.isin(rows, numbers_in(tmp_path / "judge", tmp_path))
        assert held.all() if keep else not held.any()
    with pytest.raises(ValueError, match="step='adaptive' holds real samples"):
        ContinualEvaluation(estimator=ContinualDensityRatio(step="adaptive"))


def test_files_are_checked(tmp_path):
    with pytest.raises(ValueError, match="nothing to save"):
        ContinualEvaluation().save(tmp_path / "judge")
    judged(ContinualEvaluation(measures=("js",)), n=100).save(tmp_path / "judge")
    data = bytearray((tmp_path / "judge").read_bytes())
    data[-9] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(StateFileError, match="damaged"):
        ContinualEvaluation.load(tmp_path / "damaged")
    with pytest.raises(StateFileError, match="not a driftline state of format 'driftline-state'"):
        ContinualDensityRatio.load(tmp_path / "judge")


def holes(rows):
    return np.where(np.arange(len(rows))[:, None] == 7, np.nan, rows)


BAD = [
    (holes, r"1 of 300 hold NaN or infinite values \(first: row 7\)"),
    (lambda rows: torch.tensor(holes(rows)), "1 of 300 hold NaN"),
    (lambda rows: rows[:0], "0 are given, at least"),
    (lambda rows: rows[:9], "9 are given, at least"),
    (lambda rows: rows[:, :2], r"have the shape \(2,\) each, those of the first task \(3,\)"),
]


@pytest.mark.parametrize(("spoilt", "message"), BAD)
@pytest.mark.parametrize("kind", ["none", "moving", "function"])
def test_after_a_mistake_the_evaluation_is_as_it_was(spoilt, message, kind):
    rng = np.random.default_rng(0)

    def features():
        return {"none": None, "moving": Turning(), "function": np.asarray}[kind]

    a, b = generated(0, 0, rng, n=300), generated(1, 1, rng, n=300)
    truths = [real(0, rng, 300), real(1, rng, 300)]
    judge = ContinualEvaluation(features(), measures=("js",)).task("a", truths[0])
    with pytest.raises(ValueError, match="generated samples of task 'a'.*" + message):
        judge.update({"a": spoilt(a)})
    clean = judge.update({"a": a}).table()
    with pytest.raises(ValueError, match="real samples of task 'b'.*" + message):
        judge.task("b", spoilt(truths[1]))
    assert judge.tasks == ["a"]
    judge.task("b", truths[1])
    with pytest.raises(ValueError, match="generated samples of task 'b'.*" + message):
        judge.update({"a": a, "b": spoilt(b)})
    assert judge.table().equals(clean)
    spoiled = judge.update({"a": a, "b": b}).table()
    again = ContinualEvaluation(features(), measures=("js",))
    again.task("a", truths[0]).update({"a": a}).task("b", truths[1]).update({"a": a, "b": b})
    assert again.table().equals(spoiled)


def test_errors_that_come_late_are_undone():
    """Features may fail after they were trained, measures after the ratio took its step."""
    rng = np.random.default_rng(0)
    a, truth, other = generated(0, 0, rng, n=300), real(0, rng, 300), real(1, rng, 300)

    class Failing(Turning):
        def transform(self, x):
            if self.angle > 1.0 and self.broken:
                raise ValueError("broken")
            return super().transform(x)

    features = Failing()
    features.broken = True
    judge = ContinualEvaluation(features, measures=("js",)).task("a", truth).update({"a": a})
    with pytest.raises(ValueError, match="broken"):
        judge.task("b", other)
    assert (features.angle, judge.features.angle) == (0.0, 0.7)
    assert judge.tasks == ["a"]
    judge.features.broken = False
    judge.task("b", other)

    failing = {"now": False}

    def metric_features(x):
        return np.full((len(x), 2), np.nan) if failing["now"] else np.asarray(x)

    judge = ContinualEvaluation(measures=("fid",), keep_real=True, metric_features=metric_features).task("a", truth)
    failing["now"] = True
    with pytest.raises(ValueError, match="generated samples of task 'a': features by metric_features: column 0"):
        judge.update({"a": a})
    assert judge._state.ratio.t_ == 0
    failing["now"] = False
    assert judge.update({"a": a})._state.ratio.t_ == 1


class Filling(Turning):
    """Encoder that changes its attributes in place when it is trained, and cannot be copied if it holds a lock."""

    def __init__(self, lock=None):
        self.angles, self.lock = [0.0], lock

    @property
    def angle(self):
        return self.angles[-1]

    def partial_fit(self, x):
        self.angles.append(self.angle + 0.7)
        return self


class Snapping(Filling):
    def snapshot(self):
        twin = Snapping(self.lock)
        twin.angles = list(self.angles)
        return twin


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("kind", [Turning, Filling, Snapping])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_features_are_never_changed_and_those_of_the_judge_only_by_success(hold, kind, error, monkeypatch):
    rng, features = np.random.default_rng(0), kind()
    judge = ContinualEvaluation(features, measures=("js",), hold_features=hold)
    assert judge.features is features
    judge.task("a", real(0, rng, 300)).update({"a": generated(0, 0, rng, n=300)})
    samples = {"a": generated(0, 1, rng, n=300), "b": generated(1, 1, rng, n=300)}
    truth, trained, table = real(1, rng, 300), judge.features, judge.table()

    def broken(*args, **options):
        raise error("broken")

    for place in ("add_original", "change_features")[: 1 if hold else 2]:
        with monkeypatch.context() as patch:
            patch.setattr(ContinualDensityRatio, place, broken)
            with pytest.raises(error, match="broken"):
                judge.task("b", truth)
        assert judge.features is trained
        assert (features.angle, trained.angle) == (0.0, 0.7)
        assert judge.tasks == ["a"]
    judge.task("b", truth)
    with monkeypatch.context() as patch:
        patch.setattr(ContinualDensityRatio, "divergence", broken)
        with pytest.raises(error, match="broken"):
            judge.update(samples)
    assert judge.table().equals(table)
    judge.update(samples)
    assert (features.angle, trained.angle, judge.features.angle) == (0.0, 0.7, 1.4)
    point = np.array([[1.0, 0.0, 0.0]])
    judge.features.partial_fit(point)  # whoever takes them and trains them further does not change what is held
    if hold:
        assert [judge.encode(name, point)[0, 1] for name in "ab"] == pytest.approx(np.sin([0.7, 1.4]))


def test_features_that_cannot_be_copied_need_a_snapshot():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"cannot be .*: give Filling a method snapshot\(\)"):
        ContinualEvaluation(Filling(threading.Lock()), measures=("js",)).task("a", real(0, rng, 300))
    judge = judged(ContinualEvaluation(Snapping(threading.Lock()), measures=("js",)), n=300)
    assert judge.features.angles == pytest.approx([0.0, 0.7, 1.4, 2.1])


def test_doubts_are_what_was_warned_of():
    rng, judge = np.random.default_rng(0), ContinualEvaluation(measures=("reverse_kl", "pearson"))
    for call in (
        lambda: judge.task("a", rng.normal(0.0, 1.0, (300, 2))),
        lambda: judge.update({"a": rng.normal(4.0, 0.5, (300, 2))}),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UntrustedEstimateWarning)
            call()
        assert [str(doubt) for doubt in judge.doubts] == [str(warning.message) for warning in caught]
    assert judge.doubts

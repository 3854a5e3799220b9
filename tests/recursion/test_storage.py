"""State files: constant size, no rows of the original, same numbers after resuming, damaged files refused."""

import copy
import json
import os
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

from driftline import ContinualDensityRatio, DensityRatio, StateFileError, Training
from driftline.fitting import nwj
from driftline.recursion import VERSION, _storage, contents
from driftline.synthetic import CorrelationStream, GaussianStream

MODELS = ["auto", "quadratic", "linear", "quadratic-full", pytest.param("mlp", marks=pytest.mark.networks)]


def estimator(model, **params):
    return ContinualDensityRatio(
        model=model, hidden=(16, 16), training=Training(epochs=2, batch=100), random_state=0, **params
    )


@pytest.mark.parametrize("model", MODELS)
def test_size_is_constant_and_the_original_is_gone(model, tmp_path):
    stream, rng = GaussianStream(dim=4, delta=0.02), np.random.default_rng(0)
    original = stream.sample(0, 300, rng)
    windows = [stream.sample(t, 300, rng) for t in range(1, 9)]
    est, sizes = estimator(model).fit(original), []
    for i, window in enumerate(windows):
        est.partial_fit(window)
        est.save(tmp_path / "run")
        content = (tmp_path / "run").read_bytes()
        sizes.append(len(content))
        for row in original:
            assert row.tobytes() not in content
            assert row[:2].tobytes() not in content
        assert i == 0 or windows[i - 1][0].tobytes() not in content
        assert window[0].tobytes() in content  # the search does find rows that are there
    assert max(sizes[1:]) - min(sizes[1:]) < 2_000  # doubts are text


def test_size_grows_with_features_alone(tmp_path):
    stream, rng = CorrelationStream(dim=4, delta=0.1), np.random.default_rng(0)
    est, sizes = estimator("auto").fit(stream.sample(0, 2000, rng)), {}
    for t in range(1, 9):
        est.partial_fit(stream.sample(t, 2000, rng))
        est.save(tmp_path / "run")
        features = est._state.tracks["original"].current.psi.features.size
        sizes.setdefault(features, []).append(os.path.getsize(tmp_path / "run"))
    assert len(sizes) > 1
    assert all(max(same) - min(same) < 2_000 for same in sizes.values())  # doubts are text


@pytest.mark.parametrize("step", ["every", "adaptive"])
@pytest.mark.parametrize("model", MODELS)
def test_resumed_streams_give_identical_numbers(model, step, tmp_path):
    stream, rng = CorrelationStream(dim=4, delta=0.1), np.random.default_rng(0)
    first, second = stream.sample(0, 400, rng), rng.normal(2, 1, (400, 4))
    windows = [{"original": stream.sample(t, 400, rng), "b": rng.normal(2 + t / 9, 1, (400, 4))} for t in range(1, 7)]
    straight = estimator(model, step=step).fit(first).add_original(second, name="b")
    broken = estimator(model, step=step).fit(first).add_original(second, name="b")
    for window in windows:
        straight.partial_fit(window)
        broken.save(tmp_path / "run")
        broken = ContinualDensityRatio.load(tmp_path / "run")
        broken.partial_fit(window)
        for name, info in straight.info_.originals.items():
            again = broken.info_.originals[name]
            assert str(again._replace(fit=again.fit._replace(seconds=0))) == str(
                info._replace(fit=info.fit._replace(seconds=0))
            )
    for name in ("original", "b"):
        np.testing.assert_array_equal(broken.log_ratio(first, name), straight.log_ratio(first, name))
        np.testing.assert_equal(broken.divergence("js", original=name), straight.divergence("js", original=name))
        np.testing.assert_equal(broken.step_divergence(original=name), straight.step_divergence(original=name))
    assert broken.get_params() == straight.get_params()


def leaves(thing):
    """Yield all arrays and numbers of a state in order; what is made again when it is needed is not."""
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        left_out = ("design", "known", "rows", "seen", "module")
        thing = {name: value for name, value in thing._asdict().items() if name not in left_out}
    if isinstance(thing, dict):
        for name in sorted(thing):
            yield from ((f"{name}.{key}", value) for key, value in leaves(thing[name]))
    elif thing is not None:
        yield "", np.asarray(str(thing) if isinstance(thing, tuple) else thing)  # a tuple of doubts


@pytest.mark.parametrize(
    ("rows", "step"),
    [(401, "every"), (401, "adaptive"), (2003, "every"), pytest.param(2003, "adaptive", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("model", MODELS)
def test_a_resumed_state_is_the_same_bit_by_bit(model, step, rows):
    """Odd numbers of rows and columns: arrays of a file need not begin where those in memory do."""
    stream, rng = CorrelationStream(dim=4, delta=0.1), np.random.default_rng(0)
    windows = [np.column_stack([stream.sample(t, rows, rng), rng.random(rows) < 0.5]) for t in range(6)]
    straight = estimator(model, step=step).fit(windows[0])
    broken = ContinualDensityRatio.from_bytes(straight.to_bytes())
    for window in windows[1:]:
        straight.partial_fit(window)
        broken = ContinualDensityRatio.from_bytes(broken.to_bytes()).partial_fit(window)
        found, wanted = (list(leaves(est._state)) for est in (broken, straight))
        assert [key for key, _ in found] == [key for key, _ in wanted]
        for (key, one), (_, other) in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype, key
            assert one.shape == other.shape, key
            assert one.tobytes() == other.tobytes(), key
        assert broken.to_bytes() == straight.to_bytes()
    for kind in ("kl", "reverse_kl"):
        np.testing.assert_equal(broken.divergence(kind), straight.divergence(kind))
    if model != "mlp":
        np.testing.assert_equal(broken.attribution(), straight.attribution())


@pytest.mark.parametrize("model", MODELS)
def test_an_original_that_pauses_survives_saving(model, tmp_path, rng):
    est = estimator(model).fit(rng.normal(size=(200, 2))).add_original(rng.normal(size=(200, 2)), name="b")
    est.partial_fit({"original": rng.normal(size=(200, 2)), "b": rng.normal(size=(200, 2))})
    est.partial_fit({"original": rng.normal(size=(200, 2))})  # b stays with the older model
    est.save(tmp_path / "run")
    back = ContinualDensityRatio.load(tmp_path / "run")
    probe = rng.normal(size=(10, 2))
    for name in ("original", "b"):
        np.testing.assert_array_equal(back.log_ratio(probe, name), est.log_ratio(probe, name))


@pytest.mark.networks
def test_custom_parts_must_be_passed_again(tmp_path, rng):
    from torch import nn

    def factory(n_inputs, n_outputs):
        return nn.Sequential(nn.Linear(n_inputs, 4), nn.Tanh(), nn.Linear(4, n_outputs))

    est = ContinualDensityRatio(model=factory, objective=nwj, training=Training(epochs=1), random_state=0)
    est.fit(rng.normal(size=(100, 2))).partial_fit(rng.normal(size=(100, 2)))
    est.save(tmp_path / "run")
    with pytest.raises(ValueError, match=r"custom model \(Sequential\): pass its factory"):
        ContinualDensityRatio.load(tmp_path / "run")
    with pytest.raises(ValueError, match="custom objective: pass it"):
        ContinualDensityRatio.load(tmp_path / "run", model=factory)
    back = ContinualDensityRatio.load(tmp_path / "run", model=factory, objective=nwj)
    probe = rng.normal(size=(10, 2))
    np.testing.assert_array_equal(back.log_ratio(probe), est.log_ratio(probe))


@pytest.fixture
def round_trip(tmp_path, rng):
    """Function that saves an estimator, and returns what it is when it is loaded again."""
    probe = rng.normal(size=(10, 2))

    def saved_and_loaded(est, **given):
        est.save(tmp_path / "run")
        back = ContinualDensityRatio.load(tmp_path / "run", **given)
        for name in est.originals_:
            np.testing.assert_array_equal(back.log_ratio(probe, name), est.log_ratio(probe, name))
        assert back.info_.t == est.t_
        return back

    return saved_and_loaded


def test_files_survive_a_change_of_parameters(round_trip, rng):
    """The content of a file decides how it is read, not the parameters at the time of saving."""
    est = estimator("linear").fit(rng.normal(size=(200, 2))).add_original(rng.normal(size=(200, 2)), name="b")
    est.partial_fit({"original": rng.normal(size=(200, 2)), "b": rng.normal(size=(200, 2))})
    est = round_trip(est.set_params(model="auto", random_state=np.int64(3), ridge=np.float32(1)))
    est.partial_fit({"original": rng.normal(size=(200, 2))})  # b stays with the linear model
    est = round_trip(est)
    round_trip(est.set_params(model="quadratic-full").partial_fit({"b": rng.normal(size=(200, 2))}))


@pytest.mark.networks
def test_files_of_networks_survive_a_change_of_parameters(round_trip, tmp_path, rng):
    from torch import nn

    est = estimator("mlp").fit(rng.normal(size=(200, 2))).add_original(rng.normal(size=(200, 2)), name="b")
    est.partial_fit({"original": rng.normal(size=(200, 2)), "b": rng.normal(size=(200, 2))})
    est = round_trip(est.widen((32, 32)))
    est.partial_fit({"original": rng.normal(size=(200, 2))})  # b stays with the narrow network
    est = round_trip(est)
    est = round_trip(est.set_params(model="auto", random_state=np.int64(3), ridge=np.float32(1)))
    est.partial_fit({"original": rng.normal(size=(200, 2))})
    round_trip(est)
    custom = ContinualDensityRatio(model=nn.Linear, training=Training(epochs=1), random_state=0)
    custom.fit(rng.normal(size=(100, 2))).partial_fit(rng.normal(size=(100, 2))).set_params(model="quadratic")
    round_trip(custom, model=nn.Linear)
    with pytest.raises(ValueError, match="does not fit the saved weights"):
        ContinualDensityRatio.load(tmp_path / "run", model=lambda i, o: nn.Linear(i + 1, o))


def test_files_have_ordinary_permissions_and_links_are_followed(tmp_path):
    path = saved(tmp_path)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode
    link = tmp_path / "link"
    link.symlink_to(path)
    ContinualDensityRatio.load(path).save(link)
    assert link.is_symlink()
    with pytest.raises(IsADirectoryError, match="is a directory"):
        ContinualDensityRatio.load(path).save(tmp_path)


def test_knots_are_not_values_of_the_original(tmp_path):
    """Unrounded quantiles of the original would be values of its rows."""
    rng = np.random.default_rng(0)
    original = rng.normal(5, 3, (401, 1))
    est = ContinualDensityRatio(random_state=0).fit(original).partial_fit(rng.standard_t(2, (400, 1)))
    anchor = est._state.tracks["original"].current
    standardizer, features = anchor.psi.standardizer, anchor.psi.features
    knots = np.concatenate([anchor.evidence.knots.ravel(), -features.bias / features.weight[0]])
    rows = standardizer(original)[:, 0]
    distance = np.abs(knots[:, None] - rows).min(1)
    assert (distance > 1e-9).all()


def saved(tmp_path):
    rng = np.random.default_rng(0)
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(50, 2)))
    est.partial_fit(rng.normal(size=(50, 2)))
    est.save(tmp_path / "run")
    return tmp_path / "run"


def test_damage_is_noticed(tmp_path):
    path = saved(tmp_path)
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for position in [*rng.integers(0, len(good), 60), 0, 9, len(good) - 1]:
        bad = bytearray(good)
        bad[position] ^= 0x41
        path.write_bytes(bytes(bad))
        with pytest.raises(StateFileError):
            ContinualDensityRatio.load(path)
    for cut in (0, 5, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        with pytest.raises(StateFileError, match="damaged, or not a driftline state"):
            ContinualDensityRatio.load(path)
    path.write_bytes(good)
    ContinualDensityRatio.load(path)


def test_foreign_files_are_refused(tmp_path, monkeypatch):
    path = saved(tmp_path)
    with pytest.raises(StateFileError, match="holds a ContinualDensityRatio, not a DensityRatio"):
        DensityRatio.load(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        ContinualDensityRatio.load(tmp_path / "nothing")
    save_file({"x": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(StateFileError, match="not a driftline state"):
        ContinualDensityRatio.load(tmp_path / "other")
    (tmp_path / "pickle").write_bytes(b"\x80\x04\x95")
    with pytest.raises(StateFileError):
        ContinualDensityRatio.load(tmp_path / "pickle")
    now = VERSION
    monkeypatch.setattr(_storage, "VERSION", now + 1)
    saved(tmp_path)
    monkeypatch.undo()
    with pytest.raises(StateFileError, match=f"written as version {now + 1}, this driftline reads version {now}"):
        ContinualDensityRatio.load(path)


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = saved(tmp_path)
    good = path.read_bytes()
    est = ContinualDensityRatio.load(path)

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        est.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == good
    assert [p.name for p in tmp_path.iterdir()] == ["run"]  # no temporary file is left


def test_header_is_json_without_paths(tmp_path):
    content = saved(tmp_path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    meta = json.loads(header["__metadata__"]["driftline"])
    assert meta["format"] == "driftline-state"
    assert meta["version"] == VERSION
    assert str(tmp_path) not in json.dumps(header)


@pytest.mark.parametrize("model", MODELS)
def test_contents_say_which_arrays_hold_rows_and_whose(model):
    rng = np.random.default_rng(0)
    windows = [rng.normal(0.1 * t, 1.0, (200 + t, 3)) for t in range(4)]
    est = estimator(model, step="adaptive", enough=10.0, too_much=20.0).fit(windows[0], name="window")
    est.partial_fit(windows[1]).add_original(windows[2], "b.c")
    est.partial_fit({"window": windows[3]})
    found = contents(est.to_bytes(), "these bytes")
    rows = {(array.original, len(array.values)) for array in found if array.holds_rows}
    assert rows == {("window", 200), ("window", 203), ("b.c", 202)}  # adaptive: the anchor's rows beside the last
    for array in found:
        values = np.asarray(array.values)
        held = [window for window in windows if values.ndim and np.isin(window, values).any()]
        assert bool(held) == array.holds_rows, array.name
        assert (array.original is None) == (array.name in ("t", "layout") or ".module." in array.name)
    meanings = {array.name: array.what for array in found}
    assert meanings["tracks.0.current.window"] == "rows, for the next step"
    assert meanings["tracks.0.anchor.psi.standardizer.mean"] == "means of the encoded columns in the original"
    assert meanings["t"] == meanings["tracks.1.held"] == "a number of the recursion"
    with pytest.raises(StateFileError, match="these bytes"):
        contents(est.to_bytes()[:-9], "these bytes")


def test_pickles_hold_no_more_than_files(rng):
    """Designs follow from the window: a pickled or copied estimator makes them again, and goes on bit by bit."""
    windows = [rng.normal(0.1 * t, 1.0, (3000, 6)) for t in range(4)]
    est = ContinualDensityRatio(random_state=0)
    for window in windows[:3]:
        est.partial_fit(window)
    data = pickle.dumps(est)
    assert len(data) < 1.2 * len(est.to_bytes())
    twins = pickle.loads(data), copy.deepcopy(est)
    est.partial_fit(windows[3])
    for twin in twins:
        assert twin.partial_fit(windows[3]).to_bytes() == est.to_bytes()

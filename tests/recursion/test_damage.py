"""States that were damaged with care: digests are right, and still nothing is built that the file does not hold."""

import copy

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio, StateFileError
from driftline.files import pack, unpack
from driftline.fitting import Mixture, Trees
from driftline.recursion import VERSION, contents
from tests.damage import altered, damaged, in_a_cell


def opened(data):
    return unpack(data, "driftline-state", VERSION, "these bytes")


def clusters(t, rng):
    """Return rows that need a summary density, and columns of few values."""
    left = rng.normal(-3.0 + 0.3 * t, 1.0, (900, 3))
    right = np.column_stack([rng.normal(3.0, 0.4, (900, 2)), rng.random(900) < 0.3])
    return rng.permutation(np.concatenate([left, right]))


def bent(t, rng):
    """Return rows of which one column bends after another, and one is skewed."""
    rows = np.column_stack([rng.normal(size=(1500, 2)), rng.lognormal(size=1500)])
    rows[:, 1] += 0.4 * t * (rows[:, 0] ** 2 - 1.0)
    return rows


def plain(t, rng):
    return rng.normal(0.2 * t, 1.0, (80, 2))


@pytest.fixture(scope="module")
def states():
    """States of many kinds."""
    rng, found = np.random.default_rng(0), []
    for model, make, steps in (("auto", clusters, 2), ("auto", bent, 2), ("linear", plain, 3), ("auto", plain, 1)):
        est = ContinualDensityRatio(model=model, random_state=0)
        for t in range(steps):
            est.partial_fit(make(t, rng))
        found.append(est.to_bytes(padded=model == "linear"))
    est = ContinualDensityRatio("logistic", "quadratic", step="adaptive", enough=10.0, too_much=20.0, random_state=0)
    est.fit(plain(0, rng)).add_original(plain(5, rng), "b")
    for _ in range(2):
        est.partial_fit({"original": plain(0, rng), "b": plain(5, rng)})
    found.append(est.to_bytes())
    wide = ContinualDensityRatio(random_state=0).fit(rng.normal(size=(60, 40))).partial_fit(rng.normal(size=(60, 40)))
    return [*found, wide.to_bytes(padded=False)]


@pytest.fixture(scope="module")
def learned_states():
    """States with boosted trees, and with clusters of one shape."""
    rng = np.random.default_rng(0)
    board = rng.uniform(-2.0, 2.0, size=(12_000, 2))
    black = board[(np.floor(board + 2.0).sum(1) % 2 == 0) | (rng.random(12_000) < 0.1)]
    trees = ContinualDensityRatio(random_state=0).fit(rng.uniform(-2.0, 2.0, size=(3000, 2))).partial_fit(black[:3000])
    alike = ContinualDensityRatio(random_state=0)
    for _ in range(2):
        alike.partial_fit(rng.normal(4.0 * rng.integers(0, 6, 900)[:, None], 1.0, (900, 10)))
    found = [est._state.tracks["original"].current.psi for est in (trees, alike)]
    assert any(isinstance(other.map, Trees) for other in found[0].features.others)
    assert isinstance(found[1].summaries.start, Mixture)
    return [trees.to_bytes(), alike.to_bytes()]


def attempt(data):
    """Load a state, and use it; numbers may be anything, but nothing else may go wrong."""
    np.seterr(all="ignore")
    try:
        est = ContinualDensityRatio.from_bytes(data)
    except StateFileError:
        return "refused"
    contents(data, "these bytes")
    est.to_bytes()
    for name in est.originals_:
        try:
            est.log_ratio(np.ones((3, est.n_features_in_)), name)
        except ValueError as error:
            # a state that says that its features have just been replaced is one: of it, nothing can be asked yet
            if not (est._state.tracks[name].fresh and "have changed: call partial_fit" in str(error)):
                raise
    return "loaded"


def fuzzed(states, number, seed):
    rng = np.random.default_rng(seed)
    cases = [damaged(data, *opened(data), rng) for data in states for _ in range(number)]
    found = in_a_cell([data for data, _ in cases], attempt)
    wrong = {
        said: result for (_, said), result in zip(cases, found, strict=True) if result not in ("refused", "loaded")
    }
    assert wrong == {}
    return found


def test_damaged_states_are_refused_or_states(states):
    assert in_a_cell(states, attempt) == ["loaded"] * len(states)
    found = fuzzed(states, 40, seed=1)
    assert found.count("refused") > 0.7 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_states_with_more_damage_are_refused_or_states(states, learned_states, seed):
    fuzzed([*states, *learned_states], 250, seed)


def smallest():
    rng = np.random.default_rng(0)
    est = ContinualDensityRatio(model="linear", random_state=0).fit(rng.normal(size=(40, 2)))
    return opened(est.partial_fit(rng.normal(size=(40, 2))).to_bytes())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("current", "room"), [2, 0, 0, 0, 40_000], "center has the shape"),
        (("current", "room"), [10**9] * 5, "room for 1000000000 of 2 columns"),
        (("current", "room"), [2, 0, 0, 0, -1], "no room for features"),
        (("current", "learned"), ["Trees"], "lacks 'track.0.current.learned.0.shift'"),
        (("current", "learned"), 10**9, "does not list"),
        (("current", "kind"), "pickle", "unknown kind, 'pickle'"),
        (("current", "uncertainty"), False, "which its layout does not name"),
        (("tau",), 10**30, "has no number"),
        (("same",), "yes", "whether there is 'same'"),
    ],
)
def test_sizes_of_a_header_are_compared_with_the_arrays(path, value, message):
    """The first of these, 10 kB, used to keep ``load`` busy for minutes and to take all memory."""
    arrays, meta = smallest()
    inside = meta["layout"]["tracks"]["original"]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    for read in (ContinualDensityRatio.from_bytes, lambda data: contents(data, "the state")):
        with pytest.raises(StateFileError, match=f"damaged, its parts do not fit together .*{message}"):
            read(pack(arrays, meta))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("window", np.zeros((0, 10**12)), "2 instead of 1000000000000"),
        ("window", np.zeros((40, 2), dtype=np.float32), "holds float32"),
        ("used", np.array([10**9, 0, 0, 0]), "uses .* of .* slots"),
        ("used", np.array([-1, 0, 0, 0]), "uses .* of .* slots"),
        ("linear", np.array([0, 2]), "outside 0 to 1"),
        ("lag", np.array(-1), "outside 0"),
        ("uncertainty.covariance", np.zeros(7), "7 instead of 6"),
        ("more", np.zeros(3), "does not name"),
    ],
)
def test_arrays_are_compared_with_each_other(name, value, message):
    arrays, meta = smallest()
    with pytest.raises(StateFileError, match=message):
        ContinualDensityRatio.from_bytes(pack(arrays | {f"track.0.current.{name}": value}, meta))


@pytest.mark.parametrize("value", [[-1, 0, 0], [0.5, 0, 0], [np.nan, 0, 0], [np.inf, 0, 0], [1, 0, -1], [1, 0, np.nan]])
def test_when_features_were_replaced_is_a_time_and_whether_just_now_is_yes_or_no(value):
    """Any number but 0 used to say yes, and nothing could be asked of the state."""
    arrays, meta = smallest()
    with pytest.raises(StateFileError, match="moved says"):
        ContinualDensityRatio.from_bytes(pack(arrays | {"track.0.moved": np.array(value, dtype=np.float64)}, meta))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("params", {"model": "forest"}, "model='forest' is unknown"),
        ("params", {"step": "sometimes"}, "step='sometimes' is unknown"),
        ("params", {"colour": "red"}, "colour"),
        ("params", {"device": 3}, "parameters are not those"),
        ("params", None, "parameters are not those"),
        ("seed", -1, "seed is not a number"),
        ("columns", ["a"], "names 1 of 2 columns"),
        ("custom", 3, "which of its parameters"),
        ("training", {"epochs": 3}, "training is not that"),
        ("layout", None, "layout is not an object"),
    ],
)
def test_headers_of_estimators_are_checked(part, value, message):
    arrays, meta = smallest()
    with pytest.raises(StateFileError, match=message):
        ContinualDensityRatio.from_bytes(pack(arrays, {**meta, part: value}))


def test_headers_without_end_are_refused():
    arrays, meta = smallest()
    data = pack(arrays, meta)
    length = int.from_bytes(data[:8], "little")
    deep = b'{"__metadata__":{"driftline":"' + b"[" * 100_000 + b'"}}'
    with pytest.raises(StateFileError, match="damaged"):
        ContinualDensityRatio.from_bytes(len(deep).to_bytes(8, "little") + deep + data[8 + length :])


@pytest.mark.networks
@pytest.mark.parametrize("change", [{"hidden": [60_000, 60_000]}, {"hidden": [16, -1]}, {"hidden": 3}, {}])
def test_networks_are_not_built_larger_than_their_weights(change):
    from driftline import Training

    rng = np.random.default_rng(0)
    est = ContinualDensityRatio(model="mlp", hidden=(16, 8), training=Training(epochs=1), random_state=0)
    arrays, meta = opened(est.fit(rng.normal(size=(50, 2))).partial_fit(rng.normal(size=(50, 2))).to_bytes())
    meta["layout"]["modules"][0] = change
    with pytest.raises(StateFileError, match=r"module\.0"):
        ContinualDensityRatio.from_bytes(pack(arrays, meta))


def test_static_ratios_are_checked_too():
    rng = np.random.default_rng(0)
    data = (
        DensityRatio(model="linear", random_state=0).fit(rng.normal(size=(40, 2)), rng.normal(size=(40, 2))).to_bytes()
    )
    arrays, meta = opened(data)
    bad = copy.deepcopy(meta)
    bad["layout"]["tracks"] = {}
    with pytest.raises(StateFileError, match="traces no original"):
        DensityRatio.from_bytes(pack(arrays, bad))
    for _ in range(30):
        with pytest.raises(StateFileError):
            DensityRatio.from_bytes(pack(arrays, {**meta, "layout": altered({"layout": None}, rng)[0]}))


def test_trees_that_do_not_end_are_refused():
    from driftline.recursion._checks import _check_trees

    _check_trees(np.array([1, 1, 2]), np.array([0]), "trees")
    with pytest.raises(ValueError, match="do not end"):
        _check_trees(np.array([1, 0, 2]), np.array([0]), "trees")
    with pytest.raises(ValueError, match="more than 64 levels"):
        _check_trees(np.array([i + 1 - i % 2 for i in range(200)] + [200]), np.array([0]), "trees")  # each leads on


def test_every_field_has_a_shape():
    """A field that is new in a tuple must be checked, too."""
    from driftline.fitting import Ellipsoids, Lessers, Monomials, NormalScores
    from driftline.inference import Uncertainty, Wide
    from driftline.recursion import _shapes
    from driftline.recursion._auditor import Auditor
    from driftline.recursion._contrast import Contrast
    from driftline.recursion._evidence import Evidence
    from driftline.recursion._partitions import Partitions, Tally

    tables = {
        Auditor: _shapes.AUDITOR,
        Ellipsoids: _shapes.DENSITIES["Ellipsoids"],
        Evidence: _shapes.EVIDENCE,
        Lessers: _shapes.LESSERS,
        Mixture: _shapes.DENSITIES["Mixture"],
        Monomials: _shapes.MONOMIALS,
        NormalScores: _shapes.SCORES,
        Trees: _shapes.TREES,
        Wide: _shapes.WIDE,
    }
    assert {kind: set(kind._fields) for kind in tables} == {kind: set(table) for kind, table in tables.items()}
    assert set(Uncertainty._fields) == set(_shapes.UNCERTAINTY) == set(_shapes.NETWORK_UNCERTAINTY)
    nested = {"contrast": Contrast, **dict.fromkeys(("merged", "original", "current"), Tally)}
    parts = {f"{part}.{name}" for part, kind in nested.items() for name in kind._fields}
    assert parts | set(Partitions._fields) - set(nested) == set(_shapes.PARTITIONS)

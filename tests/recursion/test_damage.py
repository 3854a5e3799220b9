"""States that were damaged with care: digests are right, and still nothing is built that the file does not hold."""

import copy
import typing

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
        found.append(est.to_bytes())
    est = ContinualDensityRatio("logistic", "quadratic", step="adaptive", enough=10.0, too_much=20.0, random_state=0)
    est.fit(plain(0, rng)).add_original(plain(5, rng), "b")
    for _ in range(2):
        est.partial_fit({"original": plain(0, rng), "b": plain(5, rng)})
    found.append(est.to_bytes())
    wide = ContinualDensityRatio(random_state=0).fit(rng.normal(size=(60, 40))).partial_fit(rng.normal(size=(60, 40)))
    return [*found, wide.to_bytes()]


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
        (("anchor", "psi", "features", "others"), [{"map": {"kind": "Trees"}}], "lacks 'tracks.0.anchor.psi"),
        (("anchor", "psi", "features", "others"), 10**9, "is not a list"),
        (("anchor", "psi", "kind"), "pickle", "unknown kind, 'pickle'"),
        (("anchor", "psi", "kind"), ["LogLinear"], "unknown kind"),
        (("anchor", "uncertainty"), None, "which its layout does not name"),
        (("anchor", "more"), True, "does not have 'more'"),
        (("current", "same"), "tracks.7", "which is not there"),
        (("current", "same"), 10**30, "which is not there"),
        (("doubts",), [["few_rows", 3, []]], "is not text"),
        (("doubts",), [["no_such_code", "words", []]], "no_such_code"),
        (("doubts",), [["few_rows", "words", [3]]], "not made of words"),
    ],
)
def test_what_a_header_says_is_compared_with_the_arrays(path, value, message):
    """A header of 10 kB used to keep ``load`` busy for minutes and to take all memory."""
    arrays, meta = smallest()
    inside = meta["layout"]["tracks"][0][1]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    for read in (ContinualDensityRatio.from_bytes, lambda data: contents(data, "the state")):
        with pytest.raises(StateFileError, match=f"damaged, its parts do not fit together .*{message}"):
            read(pack(arrays, meta))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("anchor.window", np.zeros((0, 10**12)), "1000000000000 instead of 2"),
        ("anchor.window", np.zeros((40, 2), dtype=np.float32), "holds float32"),
        ("anchor.window", np.zeros((0, 2)), "instead of 0|window has the shape"),
        ("anchor.psi.features.linear", np.array([0, 2]), "outside 0 to 1"),
        ("anchor.psi.features.linear", np.array([1, 1]), "columns twice"),
        ("anchor.psi.features.center", np.zeros(9), "2 instead of 9"),
        ("anchor.lag", np.array(-1), "lag is -1"),
        ("anchor.uncertainty.covariance", np.zeros(7), "not those of half a matrix"),
        ("anchor.uncertainty.covariance", np.zeros(10), "4 instead of 3"),
        ("anchor.uncertainty.mean", np.zeros(7), "2 instead of 7"),
        ("anchor.more", np.zeros(3), "does not name"),
        ("moved", np.array(-1), "moved"),
        ("fresh", np.array(0.5), "holds float64 instead of bool"),
    ],
)
def test_arrays_are_compared_with_each_other(name, value, message):
    arrays, meta = smallest()
    with pytest.raises(StateFileError, match=message):
        ContinualDensityRatio.from_bytes(pack(arrays | {f"tracks.0.{name}": value}, meta))


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
        ("layout", None, "the state is not described"),
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
@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("layers.0.bias", np.zeros(60_000, dtype=np.float32), "has the shape"),
        ("layers.0.weight", np.zeros((16, 2)), "weights of a network"),
        ("head.weight", np.zeros((2, 8), dtype=np.float32), "head has the shape"),
        ("layers.7.bias", np.zeros(3, dtype=np.float32), "does not name"),
    ],
)
def test_networks_are_not_built_larger_than_their_weights(part, value, message):
    from driftline import Training

    rng = np.random.default_rng(0)
    est = ContinualDensityRatio(model="mlp", hidden=(16, 8), training=Training(epochs=1), random_state=0)
    arrays, meta = opened(est.fit(rng.normal(size=(50, 2))).partial_fit(rng.normal(size=(50, 2))).to_bytes())
    with pytest.raises(StateFileError, match=message):
        ContinualDensityRatio.from_bytes(pack(arrays | {f"tracks.0.anchor.psi.module.{part}": value}, meta))


def test_static_ratios_are_checked_too():
    rng = np.random.default_rng(0)
    data = (
        DensityRatio(model="linear", random_state=0).fit(rng.normal(size=(40, 2)), rng.normal(size=(40, 2))).to_bytes()
    )
    arrays, meta = opened(data)
    bad = copy.deepcopy(meta)
    bad["layout"]["tracks"] = []
    with pytest.raises(StateFileError, match="traces no original"):
        DensityRatio.from_bytes(pack(arrays, bad))
    for _ in range(30):
        with pytest.raises(StateFileError):
            DensityRatio.from_bytes(pack(arrays, {**meta, "layout": altered({"layout": None}, rng)[0]}))


def test_trees_that_do_not_end_are_refused():
    from driftline.fitting import Trees

    def trees(child):
        k, zero = len(child), np.zeros(len(child))
        return Trees(np.zeros(k, dtype=np.int64), zero, np.array(child), zero, zero, np.array([0]))

    trees([1, 1, 2]).check()
    with pytest.raises(ValueError, match="do not end"):
        trees([1, 0, 2]).check()
    with pytest.raises(ValueError, match="more than 64 levels"):
        trees([i + 1 - i % 2 for i in range(200)] + [200]).check()  # each leads on


def test_every_field_has_a_form():
    """A field that is new in a tuple must be written and checked, too."""
    from driftline import _codec
    from driftline.recursion import State

    seen = set()

    def visit(kind):
        if kind in seen or not _codec._is_tuple(kind):
            return
        seen.add(kind)
        packed = typing.get_type_hints(kind.packed)["return"] if hasattr(kind, "packed") else kind
        for name, form in _codec._forms(packed).items():
            inner = form.kind
            while typing.get_origin(inner) in (tuple, dict):
                inner = typing.get_args(inner)[0 if typing.get_origin(inner) is tuple else 1]
            kinds = (
                [form.kinds.named(each) for each in form.kinds.names if each != "Network"] if form.kinds else [inner]
            )
            for each in kinds:
                known = form.derived or _codec._element(each) is not None or _codec._is_text(each)
                assert known or _codec._is_tuple(each), f"{kind.__name__}.{name}"
                visit(each)

    visit(State)
    assert len(seen) > 20

"""keep="sums": no row at rest, the numbers of rows up to a few percent, and clear errors for what needs rows."""

import gc
import io
import pickle
import warnings

import numpy as np
import pytest

from driftline import ContinualDensityRatio, StateFileError, UntrustedEstimateWarning
from driftline.inference import DIVERGENCES, Estimate
from driftline.recursion import _watched, contents
from driftline.recursion._kept import LEVELS

ROWS = 1500


def windows(seed=0, count=6, rows=ROWS, columns=3, shift=0.1, spread=0.03):
    rng = np.random.default_rng(seed)
    return [rng.normal(shift * t, 1.0 + spread * t, (rows, columns)) for t in range(count)]


def truth(t, columns=3, shift=0.1, spread=0.03):
    """KL(current‖original) of the stream."""
    mean, scale = shift * t, 1.0 + spread * t
    return columns * (0.5 * (scale**2 + mean**2 - 1.0) - np.log(scale))


def traced(stream, **params):
    est = ContinualDensityRatio(**{"model": "quadratic", "keep": "sums", "random_state": 0, **params}).fit(stream[0])
    for window in stream[1:]:
        est.partial_fit(window)
    return est


def arrays_in(start):
    """Yield every array that can be reached from an object, those that others are views of included."""
    seen, todo = set(), [start]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            yield thing
            if thing.base is not None:
                todo.append(thing.base)
        if not isinstance(thing, str | bytes | int | float) and not callable(thing):
            todo.extend(gc.get_referents(thing))


def holds_a_value_of(array, rows):
    return array.dtype == np.float64 and bool(np.isin(array.ravel(), rows.ravel()).any())


def assert_no_row(est, seen):
    """Search the object, and its file byte by byte, for any value of any row."""
    rows = np.concatenate(seen)
    found = [array for array in arrays_in(est) if holds_a_value_of(array, rows)]
    assert not found
    data = est.to_bytes()
    values = {value.tobytes() for value in rows.ravel()}
    assert not any(data[i : i + 8] in values for i in range(len(data) - 7))
    stored = contents(data, "state")
    assert not any(part.holds_rows for part in stored)
    assert all(part.values.shape[:1] != (len(seen[0]),) for part in stored)


@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_neither_the_object_nor_its_file_holds_a_row_after_any_call(model):
    stream = windows(rows=500, count=4)
    est = ContinualDensityRatio(model=model, keep="sums", random_state=0).fit(stream[0])
    assert_no_row(est, stream[:1])
    for t in range(1, 4):
        est.partial_fit(stream[t])
        assert_no_row(est, stream[: t + 1])
    est.divergence(), est.weights(stream[3]), est.attribution(), est.log_ratio(stream[3], return_std=True)
    assert_no_row(est, stream)


def test_the_search_does_find_rows_where_they_are_kept():
    stream = windows(rows=500, count=2)
    with pytest.raises(AssertionError):
        assert_no_row(traced(stream, keep="rows"), stream)


@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_nothing_of_a_window_stays_anywhere_in_memory(model):
    """All that the collector knows is searched, not only what the estimator refers to."""
    stream = windows(rows=501, count=3)
    est = traced(stream[:2], model=model)
    marks = np.array([row.sum() for row in stream[2]])
    est.partial_fit(stream[2].copy())
    gc.collect()
    for thing in gc.get_objects():
        for part in gc.get_referents(thing):
            if isinstance(part, np.ndarray) and part.dtype == np.float64 and part.shape == stream[2].shape:
                assert part is stream[2] or not np.isin(part.sum(1), marks).any()


@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_an_error_in_the_middle_of_a_step_leaves_no_row_and_nothing_changed(monkeypatch, model):
    stream = windows(rows=500, count=4)
    est = traced(stream[:3], model=model)
    before = est.to_bytes()

    def fails(*args, **kwargs):
        raise RuntimeError("in the middle")

    places = ["inference.advance", "inference.own_part"]
    places += ["recursion._joining.tested", "recursion._by_sums.moderated"] * (model == "auto")
    for place in places:
        with monkeypatch.context() as patch:
            patch.setattr(f"driftline.{place}", fails)
            with pytest.raises(RuntimeError, match="in the middle"):
                est.partial_fit(stream[3])
        assert est.to_bytes() == before
        assert_no_row(est, stream)
    est.partial_fit(stream[3])
    assert est.to_bytes() == traced(stream, model=model).to_bytes()


@pytest.mark.parametrize("model", ["linear", "quadratic", "quadratic-full", "auto"])
def test_numbers_are_those_of_rows_up_to_a_few_percent(model):
    stream = windows(count=8)
    kept, summed = (traced(stream, model=model, keep=keep) for keep in ("rows", "sums"))
    for kind in DIVERGENCES:
        for of in ("divergence", "step_divergence"):
            a, b = getattr(kept, of)(kind), getattr(summed, of)(kind)
            # near no drift the total variation is the root of another divergence, and its error follows its value
            near, close = (0.7, 0.35) if kind == "total_variation" else (0.5, 0.1)
            assert abs(a.value - b.value) < near * a.std_error, (of, kind)
            assert b.std_error == pytest.approx(a.std_error, rel=close), (of, kind)
    a, b = (est.log_ratio(stream[-1], return_std=True) for est in (kept, summed))
    assert np.abs(a[0] - b[0]).mean() < 0.3 * a[1].mean()
    np.testing.assert_allclose(b[1], a[1], rtol=0.25)
    a, b = kept.weights(stream[-1]), summed.weights(stream[-1])
    assert b.mean() == pytest.approx(1.0)
    assert np.abs(a - b).mean() < 0.1
    for a, b in zip(*(sorted(est.attribution()) for est in (kept, summed)), strict=True):
        assert abs(a.contribution.value - b.contribution.value) < 0.5 * a.contribution.std_error
        assert b.contribution.std_error == pytest.approx(a.contribution.std_error, rel=0.1)


# 15 of 20 or fewer have a chance of 3e-3, 6 of 10 or fewer one of 1e-3
@pytest.mark.full
@pytest.mark.parametrize(("count", "least"), [(10, 7), pytest.param(20, 16, marks=pytest.mark.slow)])
def test_intervals_hold_the_truth_and_the_floor_stays_below_it(count, least):
    held, floors = [], []
    for seed in range(count):
        estimate = traced(windows(seed)).divergence()
        held.append(estimate.low <= truth(5) <= estimate.high)
        floors.append(estimate.floor)
        assert not estimate.doubts
    assert sum(held) >= least
    assert all(0.0 < floor < truth(5) for floor in floors)


def test_a_frame_that_moves_carries_sums_over_exactly():
    """A column that is measured around 0 here and around 1,000 in units 50 times as large elsewhere reads the same."""
    stream = windows(count=5, shift=0.8, spread=0.2, rows=1000)
    shift, scale = np.array([1000.0, 0.0, -3.0]), np.array([50.0, 1.0, 0.01])
    one, other = traced(stream), traced([shift + scale * window for window in stream])
    for kind in ("reverse_kl", "js", "kl"):
        a, b = one.divergence(kind), other.divergence(kind)
        assert a.value == pytest.approx(b.value, rel=1e-6)
        assert a.std_error == pytest.approx(b.std_error, rel=1e-4)
    moved = one._state.tracks["original"].current.psi.standardizer
    assert np.abs(moved.shift).max() > 0.5
    sums = one._state.tracks["original"].current.sums.moments
    psi = one._state.tracks["original"].current.psi
    design = psi.features.design(psi.standardizer(stream[-1]))
    np.testing.assert_allclose(sums.gram, design.T @ design / len(design), rtol=1e-9, atol=1e-9)


def test_moved_sums_are_the_sums_in_the_new_frame():
    stream = windows(count=3, shift=0.9, spread=0.0, rows=1000)
    from driftline.recursion._frames import follow_sums

    track = traced(stream[:2])._state.tracks["original"]
    psi, anchor = track.anchor.psi, track.anchor
    moved, _ = follow_sums(anchor, stream[2] + 3.0)
    assert moved is not anchor
    now = moved.psi
    design = now.features.design(now.standardizer(stream[1]))
    np.testing.assert_allclose(moved.sums.moments.gram, design.T @ design / len(design), rtol=1e-9, atol=1e-9)
    before = psi.features.design(psi.standardizer(stream[1])) @ anchor.sums.coef
    np.testing.assert_allclose(design @ moved.sums.coef, before, atol=1e-9)
    np.testing.assert_allclose(moved.log_ratio(stream[1]), anchor.log_ratio(stream[1]), atol=1e-9)
    values = anchor.auditor(now.standardizer.original(now.standardizer(stream[1]))).astype(float)
    np.testing.assert_allclose(moved.sums.crossed, values.T @ design / len(design), rtol=1e-4, atol=1e-5)


def test_it_goes_on_from_a_file_and_from_a_pickle_as_if_nothing_had_happened(tmp_path):
    stream = windows(count=6)
    whole, part = traced(stream), traced(stream[:4])
    part.save(tmp_path / "state")
    loaded = ContinualDensityRatio.load(tmp_path / "state")
    again = pickle.loads(pickle.dumps(part))
    for est in (loaded, again):
        for kind in DIVERGENCES:
            for level in LEVELS:
                assert repr(est.divergence(kind, level=level)) == repr(part.divergence(kind, level=level))
        np.testing.assert_array_equal(est.weights(stream[0]), part.weights(stream[0]))
        assert [a.contribution for a in est.attribution()] == [a.contribution for a in part.attribution()]
        for window in stream[4:]:
            est.partial_fit(window)
        assert est.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_the_file_is_small_and_does_not_grow(model):
    stream = windows(count=5, columns=8)
    est, sizes = traced(stream[:2], model=model), []
    for window in stream[2:]:
        est.partial_fit(window)
        sizes.append(len(est.to_bytes()))
    assert max(sizes) - min(sizes) < 2_000  # doubts are text
    assert max(sizes) <= 100_000


@pytest.mark.parametrize("kind", ["lognormal", "clusters", "quadratic-full"])
def test_the_file_is_small_with_the_features_that_a_first_window_suggests(kind):
    rng = np.random.default_rng(3)
    centres = 4.0 * rng.normal(size=(4, 8))
    draws = {
        "lognormal": lambda t: np.exp(rng.normal(0.02 * t, 1.0, (3000, 8))),
        "clusters": lambda t: centres[rng.integers(0, 4, 3000)] + rng.normal(0.02 * t, 1.0, (3000, 8)),
        "quadratic-full": lambda t: rng.normal(0.02 * t, 1.0, (3000, 8)),
    }
    est = traced([draws[kind](t) for t in range(3)], model=kind if kind == "quadratic-full" else "auto")
    assert est._state.tracks["original"].current.psi.features.size >= 40
    assert len(est.to_bytes()) <= 150_000


def test_the_auditor_hears_the_same_from_its_covariance_to_the_digits_of_a_file(monkeypatch):
    heard, chance = [], _watched.chance
    monkeypatch.setattr(_watched, "chance", lambda *of: heard.append(chance(*of)) or heard[-1])
    stream = windows(seed=5, count=8)
    for digits in (np.float32, np.float64, np.float16):
        monkeypatch.setattr(_watched, "to_digits", lambda v, digits=digits: v.astype(digits).astype(np.float64))
        traced(stream)
    kept, whole, coarse = np.log(np.reshape(heard, (3, -1)))
    assert kept == pytest.approx(whole, abs=1e-4)
    assert np.abs(coarse - whole).max() > 1e-4  # the test can fail


def test_damaged_sums_are_refused():
    from safetensors.numpy import load, save

    data = traced(windows(count=3)).to_bytes()
    arrays = load(data)
    name = "tracks.0.anchor.sums.moments.gram"
    assert name in arrays
    buffer = io.BytesIO(data.replace(arrays[name].tobytes(), (arrays[name] + 1.0).tobytes()))
    with pytest.raises(StateFileError):
        ContinualDensityRatio.from_bytes(buffer.getvalue())
    with pytest.raises(StateFileError):
        ContinualDensityRatio.from_bytes(save({k: v for k, v in arrays.items() if k != name}))


def test_several_originals_each_keep_their_own_sums():
    stream = windows(count=5)
    alone = traced(stream[:1] + stream[2:])
    both = ContinualDensityRatio(model="quadratic", keep="sums", random_state=0).fit(stream[0], name="first")
    both.add_original(stream[1], "second")
    for window in stream[2:]:
        both.partial_fit({"first": window, "second": window})
    assert both.divergence(original="first") == alone.divergence()
    assert both.divergence(original="second").value < both.divergence(original="first").value
    assert_no_row(both, [window[:50] for window in stream])


def test_before_the_first_step_nothing_is_known_and_weights_are_one():
    stream = windows(count=1)
    est = traced(stream)
    with pytest.raises(ValueError, match="no step has been taken yet"):
        est.divergence()
    with pytest.raises(ValueError, match="no step has been taken yet"):
        est.attribution()
    np.testing.assert_array_equal(est.weights(stream[0][:3]), 1.0)
    assert not est.log_ratio(stream[0]).any()


def test_what_needs_rows_is_an_error_that_names_the_remedy():
    stream = windows(count=3)
    est = traced(stream)
    with pytest.raises(ValueError, match=r"divergence of your own .* X=.* keep='rows'"):
        est.divergence(lambda r: (r - 1) ** 2)
    with pytest.raises(ValueError, match=r"level=0.5 .*choose one of \(0.9, 0.95\)"):
        est.divergence(level=0.5)
    with pytest.raises(ValueError, match=r"change_features needs the rows .* keep='rows'"):
        est.change_features(stream[-1])
    with pytest.raises(ValueError, match=r"current_window needs the rows .* keep='rows'"):
        est.current_window()
    with pytest.raises(ValueError, match="'nonsense'"):
        est.divergence("nonsense")
    rows = np.random.default_rng(9).normal(0.2, 1.06, (800, 3))
    own = est.divergence(lambda r: (r - 1) ** 2, X=rows)
    assert isinstance(own, Estimate)
    assert est.divergence(X=rows, level=0.5).level == 0.5


@pytest.mark.parametrize(
    "params",
    [
        {"model": "mlp"},
        {"objective": "kliep"},
        {"normalizer": "self"},
        {"penalty": 1.0},
        {"step": "adaptive"},
    ],
)
def test_settings_that_need_rows_are_refused(params):
    with pytest.raises(ValueError, match=rf"^{next(iter(params))}=.* needs rows, and keep='sums' keeps none: set "):
        traced(windows(count=1), **params)


def test_keep_is_one_of_two_and_does_not_change_on_the_way():
    stream = windows(count=3)
    with pytest.raises(ValueError, match="keep='none' is unknown: choose 'rows' or 'sums'"):
        traced(stream, keep="none")
    for before, after in (("sums", "rows"), ("rows", "sums")):
        est = traced(stream[:2], keep=before)
        with pytest.raises(ValueError, match="begin again with fit"):
            est.set_params(keep=after).partial_fit(stream[2])
    with pytest.raises(ValueError, match="begin again with fit"):
        traced(stream[:2]).set_params(model="linear").partial_fit(stream[2])


def test_few_rows_for_the_parameters_are_refused():
    stream = windows(count=2, rows=69)
    with pytest.raises(ValueError, match=r"the original has 69 rows, and keep='sums' needs 70, 10 for each of 7"):
        traced(stream)
    est = traced(windows(count=1, rows=70))
    with pytest.raises(ValueError, match="the window has 69 rows"):
        est.partial_fit(stream[1])


def test_large_steps_are_doubted_and_larger_ones_withheld():
    stream = windows(count=2, shift=0.8, spread=0.0)  # 0.96 nats, a standard deviation of 1.39
    with pytest.warns(UntrustedEstimateWarning, match="large for keep='sums'"):
        est = traced(stream)
    for _ in range(2):  # what builds upon such a step is doubted, too
        assert [doubt.code for doubt in est.divergence().doubts] == ["large_step"]
        assert np.isfinite(est.divergence().std_error)
        assert est.divergence().lower_bound
        est = ContinualDensityRatio.from_bytes(est.to_bytes()).partial_fit(windows(1, 2, shift=0.8, spread=0.0)[1])
    assert not est.step_divergence().doubts
    stream = windows(count=3, shift=1.2, spread=0.0)  # 2.2 nats a step
    with pytest.warns(UntrustedEstimateWarning, match="too large for keep='sums'"):
        est = traced(stream[:2])
    estimate = est.divergence()
    assert "little_overlap" in [doubt.code for doubt in estimate.doubts]
    assert np.isnan(estimate.std_error)
    assert estimate.high == np.inf
    assert all(np.isnan(part.contribution.std_error) for part in est.attribution())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        est.partial_fit(stream[1] + 0.01)
        later = est.divergence()
    assert "weak_step" in [doubt.code for doubt in later.doubts]
    assert later.high == np.inf
    assert later.low <= max(later.floor, 0.0)


def dependent(rng, rows, columns=3):
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -0.9], np.pad(rng.normal(0, 0.44, (rows - 1, columns)), ((1, 0), (0, 0))), axis=0)


def copied(rng, rows, columns=3):
    return rng.permutation(np.repeat(rng.normal(size=(rows // 5, columns)), 5, axis=0))


@pytest.mark.full
@pytest.mark.parametrize("draw", [dependent, copied])
def test_error_bars_widen_as_with_rows_where_rows_depend_on_each_other_or_repeat(draw):
    """Seeds 0 to 3, four steps each: errors as with rows, wider than those of independent rows, and no doubt."""
    ratios, alone = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        stream = [draw(rng, 4000) + 0.05 * t for t in range(5)]
        kept, summed = (traced(stream, keep=keep).divergence() for keep in ("rows", "sums"))
        assert not summed.doubts, summed.doubts
        assert abs(kept.value - summed.value) < 0.5 * kept.std_error
        ratios.append(summed.std_error / kept.std_error)
        if draw is dependent:
            alone.append(summed.std_error / traced([rng.permutation(x) for x in stream], lag=0).divergence().std_error)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)
    if draw is dependent:
        assert np.median(alone) > 1.5  # shuffled rows hide that they depend on each other


def test_a_window_without_end_has_no_interval_for_the_true_reason_and_no_step_starts_from_it():
    rng = np.random.default_rng(1)
    stream, walk = windows(count=4, rows=500), np.cumsum(rng.normal(size=(500, 3)), 0)
    walk = (walk - walk.mean(0)) / walk.std(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        est = traced([*stream[:2], walk])
        once = est.divergence()
        assert est.info_.originals["original"].advanced is False
        est.partial_fit(stream[2])
        first = traced([walk, stream[1]]).divergence()
    for estimate in (once, first):
        assert np.isnan(estimate.std_error)
        reason = {doubt.code: doubt.sentence for doubt in estimate.doubts}
        assert "depend on each other" in reason["dependent_rows"]
        assert "few_rows" not in reason
        assert "model_misses" not in reason
    after = est.divergence()
    assert np.isfinite(after.std_error)  # measured from the window before the dependent one
    assert "dependent_rows" not in [doubt.code for doubt in after.doubts]


def test_a_lag_that_is_known_may_be_set():
    rng = np.random.default_rng(3)
    stream = [dependent(rng, 4000) for _ in range(3)]
    wide, narrow = (traced(stream, lag=lag).divergence() for lag in (40, 0))
    assert wide.std_error > 1.5 * narrow.std_error


def pair(rng, correlation, rows=3000, columns=3):
    x = rng.normal(size=(rows, columns))
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    return x


def test_a_product_joins_auto_with_all_of_its_drift_although_no_single_step_shows_it():
    """Steps of 0.001 nats: of no two neighbouring windows can they be told apart."""
    rng, last = np.random.default_rng(4), 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        seen, notes = [pair(rng, 0.0)], []
        est = ContinualDensityRatio(keep="sums", random_state=0).fit(seen[0])
        for t in range(1, last + 1):
            seen.append(pair(rng, 0.045 * t))
            est.partial_fit(seen[-1])
            notes.append(est.info_.originals["original"].reason)
            if "added" in notes[-1]:
                step = est.step_divergence()
                assert step.lower_bound  # fitted without what joined after it
                assert "model_misses" in [doubt.code for doubt in step.doubts]
                assert est.divergence().std_error > 0.0
                assert_no_row(est, seen)
    assert "added 1 products, 0 hinges" in notes
    assert "added" not in notes[0]
    found, wanted = est.divergence(), -0.5 * np.log(1 - (0.045 * last) ** 2)
    assert abs(found.value - wanted) < 3.0 * found.std_error
    assert not found.doubts
    assert "1 products" in est.info_.originals["original"].model
    top = est.attribution()
    assert {part.column for part in top[:2]} == {0, 1}
    again = ContinualDensityRatio.from_bytes(est.to_bytes())
    assert again.to_bytes() == est.to_bytes()
    fresh = pair(rng, 0.045 * last)
    np.testing.assert_array_equal(again.log_ratio(fresh), est.log_ratio(fresh))


@pytest.mark.full
def test_values_do_not_rise_with_the_number_of_quiet_steps():
    """Seeds 0 to 2: a bias of a third of 1/rows at each step, as there is one about no mean, would be 4.7 deviations.

    The mean of three has a standard error of 0.6: 2.5 is four of these from 0, and nearly four from that.
    """
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            last = traced([rng.normal(size=(300, 2)) for _ in range(41)], lag=0).divergence()
        found.append(last.value / last.noise_std)
    assert abs(np.mean(found)) < 2.5


def test_means_of_candidates_are_those_of_the_original_in_any_frame():
    from driftline.recursion._candidates import Found, means_of, widened_by

    stream = windows(count=6, shift=0.9, spread=0.2)
    current = traced(stream, model="auto")._state.tracks["original"].current
    psi, candidates = current.psi, current.sums.candidates
    assert np.abs(psi.standardizer.shift).max() > 0.5
    found = Found(candidates.pairs[[0, 2]], np.array([1, 5]), 0.0, 0.0)
    features = widened_by(candidates, found, psi, psi.standardizer(stream[-1]))
    new = np.setdiff1d(np.arange(features.size), psi.features.positions(features))
    direct = features.design(psi.standardizer(stream[0])).mean(0)[new]
    np.testing.assert_allclose(means_of(candidates, psi, features, new), direct, rtol=1e-4, atol=1e-5)


def test_a_hinge_joins_where_a_column_changes_its_shape():
    rng = np.random.default_rng(5)

    def skewed(skew):
        x = rng.normal(size=(4000, 2))
        bent = x[:, 0] + skew * np.maximum(x[:, 0] - 0.5, 0.0)
        x[:, 0] = (bent - bent.mean()) / bent.std()
        return x

    est = traced([skewed(0.25 * t) for t in range(9)], model="auto")
    assert "hinges" in est.info_.originals["original"].model


def test_nothing_joins_auto_where_nothing_new_moves():
    """Seeds 0 to 4, eight windows each, means and spreads move: at a chance of 1e-4 a window, none is expected."""
    for seed in range(5):
        est = traced(windows(seed, count=8), model="auto")
        assert est.info_.originals["original"].model == "3 columns and 3 squares"


def test_auto_reads_log_ratios_and_weights_as_with_rows():
    stream = windows(count=8)
    kept, summed = (traced(stream, model="auto", keep=keep) for keep in ("rows", "sums"))
    fresh = windows(11, count=8)[-1]
    a, b = (est.log_ratio(fresh, return_std=True) for est in (kept, summed))
    assert np.abs(a[0] - b[0]).mean() < 0.3 * a[1].mean()
    assert summed.weights(stream[-1]).mean() == pytest.approx(1.0)
    current = summed._state.tracks["original"].current
    assert np.abs(summed.log_ratio(fresh) - current.log_ratio(fresh)).max() > 1e-3  # drawn towards zero


def test_auto_needs_rows_for_the_features_that_it_begins_with_and_says_how_many():
    stream = windows(count=2, rows=69)
    with pytest.raises(ValueError, match=r"the original has 69 rows, and keep='sums' needs 70, 10 for each of 7"):
        traced(stream, model="auto")
    with pytest.raises(ValueError, match="begin again with fit"):
        traced(windows(count=2)).set_params(model="auto").partial_fit(windows(count=3)[2])


def test_clusters_are_features_but_there_is_no_mixture_to_start_from():
    """A mixture whose weights move: the truth is known, and quadratic features alone miss a third of it."""

    def mixture(rng, weight):
        side = np.where(rng.random(4000) < weight, 1.0, -1.0)
        return np.stack([2.0 * side, 2.0 * side], 1) + rng.normal(size=(4000, 2))

    def log_density(x, weight):
        logits = np.stack([-0.5 * np.square(x - 2.0).sum(1), -0.5 * np.square(x + 2.0).sum(1)], 1)
        return np.logaddexp(*(logits + np.log([weight, 1.0 - weight])).T)

    rng, share = np.random.default_rng(6), [0.5, 0.56, 0.62, 0.68]
    est = traced([mixture(rng, weight) for weight in share], model="auto")
    assert est._state.tracks["original"].current.psi.summaries is None
    assert "features of clusters" in est.info_.originals["original"].model
    fresh = mixture(rng, share[-1])
    wanted = log_density(fresh, share[0]) - log_density(fresh, share[-1])
    assert est.divergence().value == pytest.approx(-wanted.mean(), abs=4 * est.divergence().std_error)
    assert np.abs(est.log_ratio(fresh) - wanted).mean() < 0.06


def test_the_auditor_speaks_where_the_model_misses_drift_and_is_silent_elsewhere():
    rng = np.random.default_rng(2)

    def pair(correlation):
        x = rng.normal(size=(3000, 3))
        x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
        return x

    with pytest.warns(UntrustedEstimateWarning, match="does not hold"):
        est = traced([pair(0.12 * t) for t in range(7)])
    estimate = est.divergence()
    assert "model_misses" in [doubt.code for doubt in estimate.doubts]
    assert estimate.lower_bound
    full = traced([pair(0.12 * t) for t in range(7)], model="quadratic-full").divergence()
    assert not full.doubts
    assert abs(full.value + 0.5 * np.log(1 - 0.72**2)) < 4 * full.std_error


def test_few_rows_are_not_watched_since_sums_of_many_functions_would_reveal_them():
    few, many = windows(count=3, rows=300), windows(count=3, rows=600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        from_few, from_many = traced(few), traced([many[0], few[1], many[2]])
        for est in (from_few, from_many):
            assert [doubt.code for doubt in est.divergence().doubts] == ["not_audited"]
    assert not traced(many).divergence().doubts
    kept = traced(many[:1]).partial_fit(few[1])._state.tracks["original"].current.sums
    assert kept.watched.size == kept.crossed.size == 0
    reloaded = ContinualDensityRatio.from_bytes(from_many.to_bytes())
    assert reloaded.divergence() == from_many.divergence()


def test_a_column_that_was_constant_is_measured_once_it_moves():
    stream = windows(count=5)
    for t, window in enumerate(stream):
        window[:, 2] = 5.0 if t < 3 else window[:, 2]
        window[:, 1] = window[:, 1] > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        kept, summed = (traced(stream[:3], keep=keep).divergence() for keep in ("rows", "sums"))
        moved = traced(stream).divergence()
    assert summed.value == pytest.approx(kept.value, abs=0.3 * kept.std_error)
    assert summed.std_error == pytest.approx(kept.std_error, rel=0.1)
    assert "constant_moved" in [doubt.code for doubt in moved.doubts]


def test_rare_events_are_held_back_as_with_rows():
    rng = np.random.default_rng(5)
    stream = [
        np.stack([rng.normal(size=2000), (rng.random(2000) < share).astype(float)], 1) for share in (0.004, 0.003, 0.0)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        a, b = (traced(stream, keep=keep) for keep in ("rows", "sums"))
    event = np.array([[0.0, 1.0]])
    assert b.log_ratio(event)[0] == pytest.approx(a.log_ratio(event)[0], abs=0.3)
    assert abs(a.divergence().value - b.divergence().value) < 0.5 * a.divergence().std_error


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(2000, 2000), (3000, 1200)])
def test_error_bars_are_right_in_many_replicates(rows):
    """Seeds 0 to 149, windows of equal and of unequal sizes: spread of the values against their standard errors."""
    values, errors, held = [], [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        stream = [rng.normal(0.05 * t, 1.0 + 0.02 * t, (rows[t % 2], 3)) for t in range(11)]
        found = traced(stream, lag=0).divergence()
        values.append(found.value), errors.append(found.std_error)
        held.append(found.low <= truth(10, shift=0.05, spread=0.02) <= found.high)
    assert np.mean(held) >= 0.9
    assert np.median(errors) == pytest.approx(np.std(values), rel=0.2)  # a spread of 150 draws is known to 6 %

"""Rows at several sites: the numbers of all rows in one place, whatever a site does wrong, and no row that leaves."""

import threading
import warnings

import numpy as np
import pytest

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.federated import Coordinator, RowsWithheldError, Site, SiteError
from driftline.inference import DIVERGENCES

CUTS = [500, 1100, 2300]  # four unequal sites of 4,000 rows
NAMES = ["north", "east", "south", "west"]


def windows(seed=0, count=4, rows=4000, columns=3, shift=0.1, spread=0.03):
    rng = np.random.default_rng(seed)
    return [rng.normal(shift * t, 1.0 + spread * t, (rows, columns)) for t in range(count)]


def four(x):
    return [Site(part, name) for name, part in zip(NAMES, np.split(x, CUTS), strict=True)]


def one(x):
    return [Site(x, "all")]


def traced(stream, sites=four, **params):
    run = Coordinator(stream[0].shape[1], **params).begin(sites(stream[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        for window in stream[1:]:
            run.step(sites(window))
    return run


def numbers(estimate):
    fields = "value", "std_error", "low", "high", "noise", "noise_std", "shared", "slope", "floor"
    return [getattr(estimate, name) for name in fields]


def assert_same(one, other, rows):
    """Everything that can be asked: estimates, standard errors, log-ratios, weights, parts of columns, doubts."""
    for kind in DIVERGENCES:
        for of in ("divergence", "step_divergence"):
            a, b = getattr(one, of)(kind), getattr(other, of)(kind)
            np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-8, atol=1e-8)
            assert [doubt.code for doubt in a.doubts] == [doubt.code for doubt in b.doubts]
    for a, b in zip(one.log_ratio(rows, return_std=True), other.log_ratio(rows, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(one.weights(rows), other.weights(rows), rtol=1e-8)
    for a, b in zip(one.attribution(), other.attribution(), strict=True):
        np.testing.assert_allclose(numbers(a.contribution), numbers(b.contribution), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("model", ["linear", "quadratic", "quadratic-full"])
def test_four_unequal_sites_are_all_rows_in_one_place(model):
    stream = windows(count=4, columns=2)
    assert_same(traced(stream, four, model=model).estimator, traced(stream, one, model=model).estimator, stream[-1])


def test_so_they_are_where_the_frame_moves_columns_have_few_values_and_others_are_constant():
    stream = windows(count=5, shift=0.5, spread=0.15)
    for window in stream:
        window[:, 1] = window[:, 1] > 1.5
    stream = [np.column_stack([window, np.full(len(window), 7.3)]) for window in stream]
    assert_same(traced(stream).estimator, traced(stream, one).estimator, stream[-1])


def test_they_are_the_numbers_of_the_estimator_in_one_place():
    """The same coefficients to the last digits; errors differ by the draw of rows that the estimator makes there."""
    stream = windows(count=4)
    ours, plain = traced(stream).estimator, ContinualDensityRatio(model="quadratic", keep="sums", random_state=0)
    plain.fit(stream[0])
    for window in stream[1:]:
        plain.partial_fit(window)
    np.testing.assert_allclose(ours.log_ratio(stream[-1]), plain.log_ratio(stream[-1]), rtol=1e-8, atol=1e-8)
    for kind in DIVERGENCES:
        for of in ("divergence", "step_divergence"):
            a, b = getattr(ours, of)(kind), getattr(plain, of)(kind)
            assert abs(a.value - b.value) < 0.05 * b.std_error, (of, kind)
            assert a.std_error == pytest.approx(b.std_error, rel=0.03), (of, kind)
    np.testing.assert_allclose(
        ours.log_ratio(stream[-1], return_std=True)[1], plain.log_ratio(stream[-1], return_std=True)[1], rtol=0.05
    )


def test_a_wrong_sum_would_be_noticed_by_these_tests():
    """Negative control: half a percent more in one site's gradients and curvatures, consistently, is not the same."""
    stream = windows(count=2, columns=2)
    right = traced(stream).estimator

    def wrong(x):
        sites = four(x)
        sites[1]._rows = sites[1]._rows * 1.005
        return sites

    with pytest.raises(AssertionError):
        assert_same(traced(stream, wrong).estimator, right, stream[-1])


# 15 of 20 or fewer have a chance of 3e-4, 5 of 8 or fewer one of 6e-3
@pytest.mark.full
@pytest.mark.parametrize(("count", "least"), [(8, 6), pytest.param(20, 16, marks=pytest.mark.slow)])
def test_intervals_hold_the_truth_and_floors_stay_below_it(count, least):
    """Seeds from 0 on, five steps; the truth is known in closed form."""
    truth = 2 * (0.5 * (1.0 + 0.5**2 - 1.0))
    held = []
    for seed in range(count):
        found = traced(windows(seed, count=6, rows=1200, columns=2, spread=0.0), one).estimator.divergence()
        held.append(found.low <= truth <= found.high)
        assert 0.0 <= found.floor < truth
    assert sum(held) >= least


def test_the_state_goes_on_in_one_place_and_back_at_the_sites(tmp_path):
    stream = windows(count=5)
    run = traced(stream[:3])
    run.estimator.save(tmp_path / "state")
    there = ContinualDensityRatio.load(tmp_path / "state").partial_fit(stream[3])
    assert there.t_ == 3
    again = Coordinator.of(there).step(four(stream[4])).estimator
    whole = traced(stream).estimator
    assert again.t_ == 4
    assert again.divergence().value == pytest.approx(whole.divergence().value, rel=0.02)
    assert again.divergence().std_error == pytest.approx(whole.divergence().std_error, rel=0.05)


def test_names_of_columns_are_compared():
    import pandas as pd

    stream, names = windows(count=2, columns=2), ["age", "income"]
    frames = [pd.DataFrame(window, columns=names) for window in stream]
    run = Coordinator(names).begin(one(frames[0]))
    with pytest.raises(SiteError, match=r"about columns \['age', 'income'\], the rows have \['income', 'age'\]"):
        run.step(one(frames[1][["income", "age"]]))
    run.step(one(frames[1]))
    assert list(run.estimator.feature_names_in_) == names


def failing(x, name, how):
    """Return ways to four sites, of which one fails from its fourth round on."""
    ways = {site.name: site.answer for site in four(x)}
    whole, asked = ways[name], []

    def way(question):
        asked.append(question)
        return whole(question) if len(asked) < 4 else how(whole(question))

    return {**ways, name: way}


def raises(_):
    raise ConnectionError("the line is dead")


def hangs(_):
    threading.Event().wait(60)


FAILURES = {
    "raises": (raises, "ConnectionError: the line is dead"),
    "no bytes": (lambda answer: None, "not bytes"),
    "cut off": (lambda answer: answer[:-9], "damaged"),
    "one bit": (lambda answer: answer[:-1] + bytes([answer[-1] ^ 1]), "does not match its digest"),
    "hangs": (hangs, "no answer within"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_site_that_fails_stops_the_step_and_leaves_the_state_as_it_was(how):
    stream, (way, words) = windows(count=3), FAILURES[how]
    run = traced(stream[:2], timeout=1.5)
    before = run.estimator.to_bytes()
    with pytest.raises(SiteError, match=words) as error:
        run.step(failing(stream[2], "south", way))
    assert (error.value.site, error.value.share) == ("south", 0.3)
    assert run.estimator.to_bytes() == before
    run.step(four(stream[2]))
    assert_same(run.estimator, traced(stream).estimator, stream[-1])


@pytest.mark.parametrize("how", ["raises", "one bit", "hangs"])
def test_or_it_is_dropped_and_the_step_is_that_of_the_others(how):
    stream, (way, words) = windows(count=3), FAILURES[how]
    run = traced(stream[:2], on_failure="drop", timeout=1.5)
    with pytest.warns(UntrustedEstimateWarning, match=f"'south', 30% of the rows, is missing in this window .*{words}"):
        run.step(failing(stream[2], "south", way))

    def three(x):
        return [site for site in four(x) if site.name != "south"]

    without = traced(stream[:2]).step(three(stream[2])).estimator
    for kind in DIVERGENCES:
        np.testing.assert_allclose(
            numbers(run.estimator.divergence(kind)), numbers(without.divergence(kind)), rtol=1e-8, atol=1e-8
        )
    doubts = run.estimator.divergence().doubts
    assert [doubt.concerns for doubt in doubts if doubt.code == "site_missing"] == [("south",)]
    again = Coordinator.of(run.estimator)  # the doubt is in the state: the step back is doubted, too
    with pytest.warns(UntrustedEstimateWarning, match="'south' were missing in the window before"):
        again.step(four(stream[2]))
    assert "site_missing" in [doubt.code for doubt in again.estimator.step_divergence().doubts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        again.step(four(stream[2]))
    assert "site_missing" not in [doubt.code for doubt in again.estimator.step_divergence().doubts]


def site_doubts(run):
    return [doubt for doubt in run.estimator.step_divergence().doubts if doubt.code == "site_missing"]


@pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")
@pytest.mark.parametrize("at_once", [False, True])
def test_sites_that_leave_and_join_are_named(at_once):
    stream = windows(count=5)

    def some(x, *names):
        found = [site for site in four(x) if site.name in names]
        return (lambda question: {site.name: site.answer(question) for site in found}) if at_once else found

    every = sorted(site.name for site in four(stream[0]))
    others = [name for name in every if name != "south"]
    run = Coordinator(columns=stream[0].shape[1], model="quadratic").begin(some(stream[0], *every))
    assert site_doubts(run.step(some(stream[1], *every))) == []  # the same sites
    (doubt,) = site_doubts(run.step(some(stream[2], *others)))
    assert doubt.concerns == ("south",)
    assert "site(s) 'south' were there in the window before, and are absent from this one" in doubt.sentence
    assert site_doubts(run.step(some(stream[3], *others))) == []
    (doubt,) = site_doubts(run.step(some(stream[4], *every)))
    assert "site(s) 'south' are new in this window" in doubt.sentence


@pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")
def test_where_no_column_varies_at_any_site_nothing_is_measured():
    same = [Site(np.ones((800, 2)), name) for name in ("north", "south")]
    run = Coordinator(columns=2, model="quadratic").begin(same)
    found = run.step([Site(np.ones((800, 2)), name) for name in ("north", "south")]).estimator.divergence()
    assert "nothing_varies" in [doubt.code for doubt in found.doubts]
    assert not np.isfinite(found.std_error)


def test_the_share_of_a_site_that_says_nothing_at_all_is_that_of_the_window_before():
    stream = windows(count=3)
    run = traced(stream[:2])
    ways = {site.name: site.answer for site in four(stream[2])}
    with pytest.raises(SiteError, match="site 'west', which has 42% of the rows, has failed"):
        run.step({**ways, "west": raises})


def test_no_original_begins_without_one_of_its_sites_and_no_step_without_any():
    stream = windows(count=2)
    ways = {site.name: site.answer for site in four(stream[0])}
    with pytest.raises(SiteError, match="'east' has failed"):
        Coordinator(3, on_failure="drop").begin({**ways, "east": raises})
    run = traced(stream[:1], one, on_failure="drop")
    with pytest.raises(SiteError, match="the line is dead"):
        run.step({"all": raises})
    for nothing in ([], {}):
        with pytest.raises(ValueError, match="no site is given"):
            run.step(nothing)
    with pytest.raises(ValueError, match="the same name"):
        run.step(one(stream[1]) * 2)


def test_one_way_to_all_sites_serves_as_well():
    stream = windows(count=2)

    def at_once(x, lost=""):
        sites, asked = four(x), []

        def ask(question):
            asked.append(question)
            found = {site.name: site.answer(question) for site in sites}
            if len(asked) > 2 and lost == "gone":
                found.pop("south")
            return {**found, "south": "out of memory"} if len(asked) > 2 and lost == "text" else found

        return ask

    run = Coordinator(3, on_failure="drop").begin(at_once(stream[0]))
    before = run.estimator.to_bytes()
    for lost, words in (("gone", "'south'.* not answered in all rounds"), ("text", "'south'.* out of memory")):
        with pytest.raises(SiteError, match=words):
            run.step(at_once(stream[1], lost))
    with pytest.raises(ValueError, match="there are no rows"):
        run.step(lambda question: {})
    assert run.estimator.to_bytes() == before
    assert_same(run.step(at_once(stream[1])).estimator, traced(stream).estimator, stream[-1])


def test_rows_that_change_between_rounds_are_noticed():
    stream = windows(count=2)
    run = traced(stream[:1], one)
    site, other = Site(stream[1], "all"), Site(stream[1][:-1], "all")
    asked = []

    def way(question):
        asked.append(question)
        return (site if len(asked) < 3 else other).answer(question)

    with pytest.raises(SiteError, match="it counted 4000 rows before, and 3999 now"):
        run.step({"all": way})


def test_sites_with_few_rows_send_nothing():
    few = windows(count=1, rows=69)[0]
    with pytest.raises(SiteError, match=r"it has 69 rows, and sums need 70, 10 for each of 7 parameters.*pool it with"):
        Coordinator(3).begin(one(few))
    stream = windows(count=2, rows=300)
    run = traced(stream[:1], one)
    with pytest.raises(
        SiteError, match=r"sums of them are asked for, which would reveal rows unless there are \d+: pool"
    ):
        run.step(one(stream[1]))


def test_a_site_answers_so_many_questions_and_no_more():
    site = Site(windows(count=1)[0], "all")
    questions = []

    def way(question):
        questions.append(question)
        return site.answer(question)

    Coordinator(3).begin({"all": way})
    for _ in range(200 - len(questions)):
        site.answer(questions[0])
    with pytest.raises(RowsWithheldError, match="no more are allowed"):
        site.answer(questions[0])


def test_no_message_holds_a_value_of_a_row():
    stream, sent = windows(count=3, rows=1200, columns=2), []

    def ways(x):
        site = Site(x, "all")
        return {"all": lambda question: sent.append(site.answer(question)) or sent[-1]}

    run = Coordinator(2).begin(ways(stream[0]))
    for window in stream[1:]:
        run.step(ways(window))
    values = {value.tobytes() for window in stream for value in window.ravel()}
    assert len(sent) > 10
    for data in (*sent, run.estimator.to_bytes()):
        assert not any(data[i : i + 8] in values for i in range(0, len(data) - 7))


def test_an_outlier_is_named_with_its_site():
    stream = windows(count=2)
    stream[1][2000, 1] = 60.0
    with pytest.warns(UntrustedEstimateWarning, match=r"row 900 of 'south' alone carries \d+% of the step: column 1"):
        Coordinator(3).begin(four(stream[0])).step(four(stream[1]))


def test_dependent_rows_of_one_site_withhold_the_interval():
    stream = windows(count=2)
    sorted_part = np.sort(stream[1][1100:2300], axis=0)
    stream[1][1100:2300] = sorted_part
    run = traced(stream)
    found = run.estimator.divergence()
    assert np.isnan(found.std_error)
    assert "dependent_rows" in [doubt.code for doubt in found.doubts]
    assert not run.info.originals["original"].advanced


def test_what_is_known_of_dependent_rows_in_one_place_is_not_carried_over_to_sites():
    rng, stream = np.random.default_rng(4), windows(count=2)
    rows = np.zeros((4000, 3))
    for i in range(1, len(rows)):
        rows[i] = 0.7 * rows[i - 1] + rng.normal(0.0, 0.7, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        plain = ContinualDensityRatio(model="quadratic", keep="sums", random_state=0).fit(rows)
        run = Coordinator.of(plain).step(four(stream[1]))
        found = run.estimator.divergence()
    assert np.isnan(found.std_error)
    assert "dependent_rows" in [doubt.code for doubt in found.doubts]


def test_nobody_has_looked_at_what_the_model_misses_and_that_is_said():
    codes = [doubt.code for doubt in traced(windows(count=2), one).estimator.divergence().doubts]
    assert codes == ["not_audited"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"model": "mlp"}, "model='mlp' is not for rows in several places"),
        ({"model": "quadratic-full", "columns": 20}, "has 231 parameters"),
        ({"on_failure": "ignore"}, "choose 'stop' or 'drop'"),
        ({"lag": 3}, "choose 'auto' or 0"),
        ({"ridge": -1.0}, "ridge=-1.0"),
        ({"timeout": 0.0}, "timeout=0.0"),
        ({"columns": 0}, "columns=0"),
    ],
)
def test_settings_are_checked(params, words):
    with pytest.raises(ValueError, match=words):
        Coordinator(**{"columns": 3, **params})


def test_nothing_can_be_asked_before_it_has_begun():
    with pytest.raises(ValueError, match="call begin"):
        _ = Coordinator(3).estimator
    with pytest.raises(ValueError, match="call begin"):
        Coordinator(3).step(one(windows(count=1)[0]))
    with pytest.raises(ValueError, match="name=''"):
        Site(windows(count=1)[0], "")
    rows = ContinualDensityRatio(model="quadratic").fit(windows(count=1)[0])
    with pytest.raises(ValueError, match="keep='rows'"):
        Coordinator.of(rows)

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments import data
from experiments.covariate_shift import electricity
from experiments.covariate_shift import experiment as shift
from experiments.experiment import Unit

TINY = shift.Args(seeds=2, rows=1500, epochs=1, splits=2, split_weeks=2, split_windows=3)


def silent(text):
    pass


def rows(args, case, seeds):
    frames = [
        pd.DataFrame([{"case": case, "seed": seed, **row} for row in shift.run(args, Unit(case, seed, 0), silent)])
        for seed in range(seeds)
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def synthetic():
    network = rows(replace(TINY, rows=300), shift.CKLIEP, 1)  # nothing is asked of its error
    return pd.concat([rows(TINY, shift.DRIFTLINE, 2), network, rows(TINY, shift.REFERENCES, 2)])


@pytest.fixture(scope="module")
def real(market):
    table = market(26, np.random.default_rng(1000), moved=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "electricity", lambda: table)
        once = rows(TINY, shift.ELECTRICITY, 1)
    # a second split takes seconds and shows nothing new
    return pd.concat([once, once.assign(seed=1, error=1.01 * once["error"])], ignore_index=True)


def test_driftline_halves_the_error_and_is_near_true_weights(synthetic):
    error = synthetic[synthetic.t == 10].groupby("method")["mse"].mean()
    assert error[shift.DRIFTLINE] <= 0.5 * error[shift.PLAIN]
    assert error[shift.DRIFTLINE] <= 1.1 * error[shift.TRUE]
    assert error[shift.FIRST] <= 1.05 * error[shift.DRIFTLINE]


def test_methods_share_windows_and_test_rows(synthetic, monkeypatch):
    given = {}

    def recorded(method, t, train, test, weights):
        given[method, t] = [*train, *test]
        return {}

    monkeypatch.setattr(shift, "_fitted", recorded)
    for case in (shift.CKLIEP, shift.DRIFTLINE, shift.REFERENCES):
        list(shift.run(replace(TINY, rows=300), Unit(case, 0, 0), silent))
    for t in range(2, 11):
        for method in (shift.DRIFTLINE, shift.TRUE, shift.PLAIN):
            for ours, theirs in zip(given[method, t], given[shift.CKLIEP, t], strict=True):
                np.testing.assert_array_equal(ours, theirs)
    # and the line trained on D_1 is one line
    first = synthetic[synthetic.method == shift.FIRST]
    assert (first.groupby("seed")["mse"].nunique() == 1).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": 0},
        {"rows": 0},
        {"epochs": 0},
        {"rate": 0.0},
        {"rate": -1.0},
        {"splits": 0},
        {"splits": 12},
        {"split_weeks": 1},
        {"split_windows": 1},
    ],
)
def test_plain_mistakes_are_named_by_flag_and_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} {value:g} must be"):
        replace(shift.Args(), **wrong)


def test_units_leave_the_real_table_out_when_it_is_absent(monkeypatch, tmp_path, market):
    monkeypatch.delenv("DRIFTLINE_DATA", raising=False)
    assert shift.ELECTRICITY not in {unit.case for unit in shift.units(TINY)}
    assert "not run: DRIFTLINE_DATA" in shift.caption(TINY)
    (tmp_path / "electricity").mkdir()
    (tmp_path / "electricity" / "electricity.zip").touch()
    monkeypatch.setenv("DRIFTLINE_DATA", str(tmp_path))
    assert shift.ELECTRICITY not in {unit.case for unit in shift.units(TINY)}
    assert "not run: DRIFTLINE_DATA/electricity/electricity.zip cannot be read" in shift.caption(TINY)
    market(1, np.random.default_rng(1000)).to_csv(tmp_path / "electricity" / "electricity.zip", index=False)
    assert [unit.case for unit in shift.units(TINY)].count(shift.ELECTRICITY) == TINY.splits
    assert "not run" not in shift.caption(TINY)


def test_units_foresee_their_rows(synthetic, real):
    expected = {unit.case: unit.rows for unit in shift.units(TINY)} | {shift.ELECTRICITY: electricity.ROWS}
    counts = pd.concat([synthetic, real]).groupby(["case", "seed"]).size()
    for (case, _), count in counts.items():
        assert count == expected[case]


def test_a_price_that_moves_given_the_covariates_is_recognised(real):
    error = real[real.target == electricity.PRICE].groupby("method")["error"].mean()
    assert error["told apart"] < 0.8 * error["pooled"]
    assert error["first"] < 0.5 * error["weighted"]


def test_the_figure_labels_its_axes_with_and_without_the_real_table(synthetic, real):
    for frame, panels in ((synthetic, 3), (pd.concat([synthetic, real]), 6)):
        drawn = shift.figure(frame, TINY)
        assert len(drawn.axes) == panels
        assert all(ax.get_xlabel() and ax.get_ylabel() and ax.get_title() for ax in drawn.axes)


def test_the_synthetic_verdict_turns_with_the_numbers(synthetic, monkeypatch, check_form):
    monkeypatch.delenv("DRIFTLINE_DATA", raising=False)
    good = check_form(shift.verdict(synthetic, TINY))
    assert good.startswith("**Confirmed on the synthetic stream; the electricity table was not run.**")
    assert "not run: DRIFTLINE_DATA" in good
    assert "(met, " in good
    assert "missed" not in good
    doctored = synthetic.copy()
    ours = doctored.method == shift.DRIFTLINE
    doctored.loc[ours, "mse"] *= 1.3  # the claim stands, one of our bars does not
    words = check_form(shift.verdict(doctored, TINY))
    assert words.startswith("**Confirmed on")
    assert "above that with true weights (missed, " in words
    doctored.loc[ours, "mse"] *= 100.0
    words = check_form(shift.verdict(doctored, TINY))
    assert words.startswith("**Confirmed with CKLIEP's weights, contradicted with driftline's, on")
    assert "without weights (missed, " in words
    doctored.loc[doctored.method == shift.CKLIEP, "mse"] = 100.0
    assert shift.verdict(doctored, TINY).startswith("**Contradicted on")
    doctored.loc[ours & (doctored.seed == 1), "mse"] = np.nan
    words = check_form(shift.verdict(doctored, TINY))
    assert "no number with driftline's, on" in words
    assert "| with driftline's weights | no number |" in words


def test_one_seed_has_no_spread(synthetic, monkeypatch, check_form):
    monkeypatch.delenv("DRIFTLINE_DATA", raising=False)
    words = check_form(shift.verdict(synthetic[synthetic.seed == 0], TINY))
    assert "±" not in words
    assert "one seed only" in words


def test_the_caption_names_what_differs_and_nothing_else(monkeypatch):
    monkeypatch.setattr(data, "electricity_missing", lambda: "")
    assert "Shortened" not in shift.caption(shift.PAPER)
    assert shift.caption(replace(shift.PAPER, splits=3)).endswith("Shortened: splits 3 instead of 10.")
    assert shift.caption(replace(shift.PAPER, rows=50)).endswith("Shortened: rows a window 50 instead of 50,000.")


@pytest.fixture
def judged(synthetic, check_form):
    """The verdict on the stream and on some rows of the market."""

    def judge(market, weeks=4, windows=7):
        args = replace(TINY, split_weeks=weeks, split_windows=windows)
        return check_form(shift.verdict(pd.concat([synthetic, market]), args))

    return judge


def test_the_real_verdict_turns_with_the_numbers(real, judged):
    def with_weighted(values, kinds=electricity.MODELS, others=(0.401, 0.4)):
        """All kinds of model at error 0.4 but for weights, whose errors by split are given for some kinds."""
        frame = real.copy()
        frame["error"] = 0.4 + 0.001 * frame["seed"]
        for seed in range(2):
            chosen = (frame.method == "weighted") & (frame.seed == seed)
            frame.loc[chosen, "error"] = others[seed]
            frame.loc[chosen & frame.model.isin(kinds), "error"] = values[seed]
        return judged(frame)

    assert "weights help clearly (SVM, boosting, forest, linear, tree).**" in with_weighted((0.3, 0.302))
    assert "weights harm clearly" in with_weighted((0.5, 0.502))
    assert "do not help or harm beyond chance.**" in with_weighted((0.3, 0.5))
    assert "moved too is not shown" in with_weighted((0.3, 0.5))
    assert "help clearly (tree), one kind of 5, which may be chance" in with_weighted((0.3, 0.302), ["tree"])
    mixed = with_weighted((0.3, 0.302), ["tree", "SVM"], others=(0.5, 0.502))
    assert "help clearly (SVM, tree) and harm clearly (boos" in mixed
    frame = real.copy()
    frame.loc[frame.method == "told apart", "error"] = 0.01 + 0.001 * frame["seed"]
    frame.loc[frame.method == "pooled", "error"] = 0.4 + 0.001 * frame["seed"]
    moved = judged(frame)
    assert "p(y|x) moved too for the log price and the class, which" in moved
    assert "not shown" not in moved
    frame.loc[frame.method == "told apart", "error"] = 0.5
    assert "errs 25% more for the log price and 25% more for the class." in judged(frame)


def test_targets_that_differ_are_said_apart(real, judged):
    frame = real.assign(error=0.4 + 0.001 * real["seed"])
    chosen = (frame.method == "weighted") & (frame.target == electricity.PRICE)
    frame.loc[chosen, "error"] = 0.3 + 0.002 * frame["seed"]
    assert "weights help clearly (SVM, boosting, forest, linear, tree) for the log price, do not help" in judged(frame)


def test_the_real_verdict_says_how_far_splits_can_be_trusted(real, judged):
    assert "standard errors are optimistic" in judged(real)
    assert "optimistic" not in judged(real, 2, 5)  # ten weeks in all: no overlap
    alone = judged(real[real.seed == 0])
    assert "1 split;" in alone
    assert "weights cannot be judged from one split.**" in alone

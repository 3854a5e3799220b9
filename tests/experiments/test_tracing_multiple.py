"""Fig. 3c: who is closer with several originals, and words that follow the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import tracing_multiple as tm

Check = Callable[[str], str]

# steps large enough that the drift stands out of the noise of so few rows
ARGS = tm.Args(seeds=1, originals=4, dim=4, delta=0.08, rows=2000, test_rows=2000, epochs=3, rate=1e-3, times=(2, 4))


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    found = []
    for i, unit in enumerate(tm.units(ARGS)):
        rows = list(tm.run(ARGS, unit, lambda text: None, tmp_path_factory.mktemp(f"unit{i}")))
        assert len(rows) == unit.rows
        found += [{"case": unit.case, "seed": unit.seed, **row} for row in rows]
    return pd.DataFrame(found)


def doctored(ckliep: float, kliep: float, convex: float = 0.3, ours: float = 0.31, seeds: int = 2) -> pd.DataFrame:
    """Two times and seeds at a truth of 0.3 nats; the last time has these KLs, and log-ratio errors to match."""
    said = {tm.CKLIEP: ckliep, tm.KLIEP: kliep, tm.EACH: kliep, tm.CONVEX: convex, tm.OURS: ours}
    return pd.DataFrame(
        [
            {
                "method": case,
                "seed": seed,
                "t": t,
                "kl": kl if t == 4 else 0.3,
                "mae": abs(kl - 0.3),
                "true_kl": 0.3,
                "each_off": abs(kl - 0.3),
                "exact_kl": 0.3,
                "window_kl": kl,
                "window_error": 0.02 if case == tm.OURS else np.nan,
            }
            for case, kl in said.items()
            for seed in range(seeds)
            for t in (2, 4)
        ]
    )


def test_every_method_is_measured_on_the_same_truth(frame: pd.DataFrame) -> None:
    assert frame.groupby("t")[["true_kl", "exact_kl"]].nunique().to_numpy().max() == 1
    assert sorted(frame[frame.method == tm.OURS].t) == [2, 3, 4]
    assert sorted(frame[frame.method == tm.KLIEP].t) == [2, 4]


def test_the_truth_is_the_average_over_originals_that_joined_one_by_one(frame: pd.DataFrame) -> None:
    stream = tm.Data(ARGS, 0).stream(2)
    expected = np.mean([stream.reverse_kl(moved) for moved in (1, 2, 3)])
    assert frame[frame.t == 4].exact_kl.iloc[0] == pytest.approx(expected)
    assert frame[frame.t == 4].true_kl.iloc[0] == pytest.approx(expected, rel=0.15)


def test_default_beats_the_networks_where_its_model_holds_the_ratio(frame: pd.DataFrame) -> None:
    last = frame[frame.t == 4].set_index("method")
    off = (last.kl - last.true_kl).abs()
    assert off[tm.OURS] < 0.15 * last.true_kl.iloc[0]
    assert last.mae[tm.OURS] < min(last.mae[tm.CKLIEP], last.mae[tm.KLIEP])


def test_averaging_hides_errors_of_single_originals(frame: pd.DataFrame) -> None:
    assert ((frame.kl - frame.true_kl).abs() <= frame.each_off + 1e-12).all()


def test_first_step_of_ckliep_is_kliep(frame: pd.DataFrame) -> None:
    """With one original and no past they are the same fit."""
    first = frame[frame.t == 2].set_index("method")
    assert first.kl[tm.CKLIEP] == pytest.approx(first.kl[tm.KLIEP])
    assert first.mae[tm.CKLIEP] == pytest.approx(first.mae[tm.KLIEP])


def test_only_the_default_has_error_bars(frame: pd.DataFrame) -> None:
    ours = frame[frame.method == tm.OURS]
    assert (ours.window_error > 0).all()
    assert ((ours.window_kl - ours.exact_kl).abs() < 4 * ours.window_error).all()
    assert frame[frame.method == tm.CKLIEP].window_error.isna().all()


def test_data_differ_between_seeds_originals_and_roles() -> None:
    one, other = tm.Data(ARGS, 0), tm.Data(ARGS, 1)
    assert not np.array_equal(one.window(1, 1), other.window(1, 1))
    assert not np.array_equal(one.window(1, 1)[:2000], one.test(1, 1))
    assert not np.allclose(one.window(1, 0) - 2.0, one.window(2, 0) - 4.0)
    assert len(one.window(1, 1)) == 2400  # 2000 and their validation rows
    assert one.window(2, 0).mean() == pytest.approx(4.0, abs=0.05)


@pytest.mark.parametrize(
    ("ckliep", "kliep", "lead"),
    [
        (0.32, 0.5, "CKLIEP is closer in both seeds, as claimed."),
        (0.5, 0.32, "KLIEP is closer in both seeds, against the claim."),
        (0.4, 0.4, "neither is closer in all seeds (CKLIEP in 0 of 2)."),
    ],
)
def test_verdict_turns_with_the_numbers(ckliep: float, kliep: float, lead: str, check_form: Check) -> None:
    text = check_form(tm.verdict(doctored(ckliep, kliep), ARGS))
    assert text.startswith(f"**By averaged KL and log-ratios {lead}**")
    assert f"{ckliep:.3f}" in text
    assert f"{kliep:.3f}" in text


def test_verdict_says_where_seeds_disagree(check_form: Check) -> None:
    table = doctored(0.32, 0.5)
    table.loc[(table.method == tm.CKLIEP) & (table.seed == 1), "kl"] = 0.9
    lead = check_form(tm.verdict(table, ARGS)).split("**")[1]
    assert lead.startswith("By averaged KL neither is closer in all seeds (CKLIEP in 1 of 2); by log-ratios CKLIEP is")


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        (1, "One seed only"),
        (3, "3 seeds are few: were both alike, all 3 seeds would agree by chance 1 time in 4."),
        (10, "one. Were both alike, all 10 seeds would agree by chance 1 time in 512."),
    ],
)
def test_verdict_says_what_agreement_is_worth(seeds: int, words: str, check_form: Check) -> None:
    text = check_form(tm.verdict(doctored(0.32, 0.5, seeds=seeds), ARGS))
    assert words in text
    assert "onfirmed" not in text


@pytest.mark.parametrize(
    "wrong",
    [{name: 0} for name in ("seeds", "dim", "rows", "test_rows", "epochs", "rate", "delta")]
    + [{"delta": 0.1}, {"rate": -1e-3}, {"originals": 1}],
)
def test_plain_mistakes_are_named_by_flag_and_value(wrong: dict[str, float]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} {value:g} must"):
        replace(tm.Args(), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [(), (1, 10), (2, 11), (2, 4, 7), (10, 2), (2, 2, 10)])
def test_times_must_rise_to_the_last_original(times: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"--times {' '.join(map(str, times))} must rise .* --originals 10"):
        replace(tm.Args(), times=times)


def test_verdict_judges_single_originals_on_their_own(check_form: Check) -> None:
    table = doctored(0.32, 0.5)
    assert "single original CKLIEP is closer in both seeds" in check_form(tm.verdict(table, ARGS))
    table.loc[table.method == tm.CKLIEP, "each_off"] = 0.9
    assert "single original KLIEP is closer in both seeds" in check_form(tm.verdict(table, ARGS))


def test_verdict_says_who_is_closest_and_why_and_counts_intervals(check_form: Check) -> None:
    good = check_form(tm.verdict(doctored(0.35, 0.5, convex=0.4, ours=0.31), ARGS))
    bad = check_form(tm.verdict(doctored(0.35, 0.5, convex=0.6, ours=0.37), ARGS))
    assert "the closest of all" in good
    assert "4 of 4 of its 95 % intervals" in good
    assert "original is closer than its network." in good
    assert "not the closest: that is CKLIEP" in bad
    assert "0 of 4 of its 95 % intervals" in bad
    assert "no closer than its network" in bad


def test_one_seed_has_no_spread() -> None:
    assert "±" not in tm.verdict(doctored(0.35, 0.5, seeds=1), ARGS)


def test_figure_has_labelled_axes_and_all_methods(frame: pd.DataFrame) -> None:
    fig = tm.figure(frame, ARGS)
    kl, mae = fig.axes
    assert all("[nats]" in ax.get_ylabel() and ax.get_xlabel() for ax in (kl, mae))
    labels = [text.get_text() for text in fig.legends[0].get_texts()]
    assert labels[0] == "truth"
    assert len(labels) == 6
    fig.canvas.draw()


def test_caption_says_what_was_shortened() -> None:
    paper = tm.EXPERIMENT.presets["paper"]
    assert "Unlike the paper" not in tm.caption(paper)
    assert "3 epochs a fit instead of up to 5000" in tm.caption(replace(paper, epochs=3))
    assert "rows a window" in tm.caption(ARGS)


def test_units_are_every_method_and_seed_and_static_ones_every_time() -> None:
    units = tm.units(replace(ARGS, seeds=2, first_seed=3, variants=tm.VARIANTS))
    assert len(set(units)) == len(units) == 2 * (2 + 2 * 2 + 2 * 2 + 2 + 1)
    assert ("CKLIEP, code", 4, 3) in [unit[:3] for unit in units]
    assert ("KLIEP @ 4", 3, 1) in [unit[:3] for unit in units]
    assert {unit.case for unit in tm.units(replace(ARGS, methods=("driftline",)))} == {"driftline"}


@pytest.mark.parametrize(("flag", "value"), [("methods", "LSIF"), ("variants", "other")])
def test_unknown_names_are_answered_with_the_list(flag: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"--{flag} '{value}' is unknown: choose from"):
        replace(ARGS, **{flag: (value,)})  # type: ignore[arg-type]


def test_the_plotted_truth_is_that_of_the_originals_that_have_moved() -> None:
    assert "the truth is 0.309, the authors' plot ends near 0.31" in tm.caption(tm.PAPER)


def test_a_killed_run_goes_on_from_its_last_step(frame: pd.DataFrame, tmp_path: Path) -> None:
    unit = tm.Unit(tm.CKLIEP, 0, 3)
    first = tm.run(ARGS, unit, lambda text: None, tmp_path)
    next(first)
    next(first)
    first.close()
    steps: list[str] = []
    resumed = list(tm.run(ARGS, unit, steps.append, tmp_path))
    assert [row["t"] for row in resumed] == [2, 3, 4]
    assert not any(text == "t=3" for text in steps)
    whole = frame[frame.method == tm.CKLIEP]
    np.testing.assert_allclose([float(row["kl"]) for row in resumed], whole.kl, rtol=1e-5)


def test_the_code_variant_is_judged_beside_the_printed_one(check_form: Check) -> None:
    table = doctored(0.32, 0.5)
    coded = table[table.method.isin([tm.CKLIEP, tm.KLIEP])]
    swapped = {tm.CKLIEP: "KLIEP, code", tm.KLIEP: "CKLIEP, code"}
    text = check_form(tm.verdict(pd.concat([table, coded.replace({"method": swapped})]), ARGS))
    assert "as in the authors' code, by averaged KL and log-ratios KLIEP is closer in both seeds" in text
    alone = check_form(tm.verdict(table[table.method == tm.OURS], ARGS))
    assert alone.startswith("**Some methods alone.**")

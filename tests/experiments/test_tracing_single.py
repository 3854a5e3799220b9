"""Fig. 3a,b in small: every method runs, ours is nearest, the words follow the numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, FitDivergedError
from driftline.synthetic import GaussianStream
from experiments.experiment import Unit
from experiments.parts import part_path
from experiments.tracing_single import EXPERIMENT, METHODS, Args, caption, chosen, figure, run, units, verdict

SMALL = Args(
    seeds=1,
    deltas=(0.03,),
    dim=4,
    rows=2000,
    last=8,
    epochs=3,
    rate=1e-3,
    kliep_times=(4, 8),
    tre_epochs=3,
)


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    parts = []
    for i, unit in enumerate(units(SMALL)):
        found = list(run(SMALL, unit, lambda text: None, tmp_path_factory.mktemp(f"unit{i}")))
        assert len(found) == unit.rows
        parts.extend({"case": unit.case, "seed": unit.seed, **row} for row in found)
    printed = pd.DataFrame(parts)
    coded = printed[printed.method.isin(["CKLIEP-d1", "CKLIEP-d4", "KLIEP, network"])]
    return pd.concat([printed, coded.assign(method=coded.method + ", code")], ignore_index=True)  # saves its fits


def test_every_method_is_measured_to_the_end(frame):
    ends = frame.groupby("method").t.max()
    assert set(ends.index) == set(METHODS)
    assert (ends == SMALL.last).all()


def test_ours_is_nearest_of_those_that_keep_nothing(frame):
    mae = frame[frame.t == SMALL.last].set_index("method").mae
    # nine parameters from 2000 rows know the log-ratio to about sqrt(9/2000) nats, and steps do not add to that
    assert mae["driftline"] < 0.15
    assert mae["driftline"] < 0.5 * min(mae["CKLIEP-d1"], mae["CKLIEP-d4"])
    assert mae["driftline"] == pytest.approx(mae["TRE, convex"], rel=0.3)


def test_methods_share_their_windows_and_seeds_do_not(monkeypatch, tmp_path):
    small, seen = replace(SMALL, last=4, kliep_times=(4,)), {}

    def watch(name, seed):
        found = []
        original = GaussianStream.sample

        def sample(self, t, n, rng):
            rows = original(self, t, n, rng)
            found.append((t, rows[:5].tobytes()))
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(GaussianStream, "sample", sample)
            list(run(small, Unit(f"{name} @ 0.03", seed, 4), lambda text: None, tmp_path))
        seen[name, seed] = set(found)

    watch("driftline", 3)
    watch("TRE, convex", 3)
    watch("driftline", 4)
    assert seen["driftline", 3] == seen["TRE, convex", 3]
    assert not seen["driftline", 3] & seen["driftline", 4]


def test_figure_has_labels_and_all_methods(frame):
    drawn = figure(frame, replace(SMALL, variants=("printed", "code")))
    assert len(drawn.axes) == 2
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in drawn.axes)
    assert {line.get_label() for line in drawn.axes[0].lines} == set(METHODS)


def doctor(frame, **mae):
    """Give methods these errors, the same in KL."""
    for name, value in mae.items():
        rows = frame.method == name
        frame.loc[rows, "mae"] = value
        frame.loc[rows, "kl"] = frame.loc[rows, "true_kl"] - value


def test_verdict_turns_with_the_numbers(frame, check_form):
    doctored = pd.concat([frame, frame.assign(seed=1)], ignore_index=True)
    doctor(doctored, **{"CKLIEP-d1": 1.0, "CKLIEP-d4": 2.0, "KLIEP, network": 3.0, "KLIEP, convex": np.nan})
    said = check_form(verdict(doctored, SMALL))
    assert said.startswith("**That smaller steps are better for CKLIEP is seen at Δ=0.03.**")
    assert "CKLIEP-d1 ends ahead of CKLIEP-d4: by MAE yes in both seeds, by KL yes in both seeds at Δ=0.03" in said
    assert "CKLIEP-d1 ends ahead of KLIEP, network: by MAE yes in both seeds" in said
    assert "CKLIEP-d4 ends ahead of KLIEP, network: by MAE yes in both seeds" in said
    assert "CKLIEP-d1, code ends ahead of CKLIEP-d4, code: by MAE" in said
    assert "| KLIEP, convex | 2 of 2 fits failed | |" in said
    doctor(doctored, **{"CKLIEP-d1": 4.0})
    said = check_form(verdict(doctored, SMALL))
    assert said.startswith("**That smaller steps are better for CKLIEP is not seen at Δ=0.03.**")
    assert "CKLIEP-d1 ends ahead of KLIEP, network: by MAE no in both seeds" in said
    assert "CKLIEP-d4 ends ahead of KLIEP, network: by MAE yes in both seeds" in said
    doctored.loc[doctored.method == "CKLIEP-d1", "mae"] = 1.0
    assert "better for CKLIEP is seen by MAE but not seen by KL at Δ=0.03.**" in check_form(verdict(doctored, SMALL))
    doctored.loc[(doctored.method == "CKLIEP-d1") & (doctored.seed == 1), "mae"] = 4.0
    said = check_form(verdict(doctored, SMALL))
    assert "better for CKLIEP is unsettled by MAE but not seen by KL at" in said
    assert "unsettled (yes in 1 of 2 seeds)" in said
    doctored.loc[doctored.method == "driftline", "mae"] = 9.0
    said = check_form(verdict(doctored, SMALL))
    assert "relative to driftline's is ×0." in said
    assert "it is not level with driftline" in said


def test_verdict_says_once_what_holds_for_several_deltas(frame, check_form):
    both = pd.concat([frame, frame.assign(delta=0.01)], ignore_index=True)
    said = check_form(verdict(both, replace(SMALL, deltas=(0.03, 0.01))))
    assert "at Δ=0.03 and 0.01.**" in said
    assert "| at t=8, in nats | MAE, Δ=0.03 | KL, Δ=0.03 | MAE, Δ=0.01 | KL, Δ=0.01 |" in said


def test_the_words_hold_for_some_methods_alone(frame, check_form):
    for methods in (("CKLIEP-d1",), ("CKLIEP-d1", "CKLIEP-d4", "driftline"), ("driftline", "TRE, convex")):
        small = replace(SMALL, methods=methods, variants=("code",))
        part = frame[frame.method.str.removesuffix(", code").isin(methods) & frame.method.isin(chosen(small))]
        figure(part, small)
        text = verdict(part, small)
        assert all(name in text for name in chosen(small))
        assert "nan" not in text


def test_units_are_chosen_by_flags_and_keep_their_files():
    """Flags that choose units leave the names of the parts alone, so that runs can be put together later."""
    every = units(replace(SMALL, seeds=5, variants=("printed", "code")))
    few = replace(SMALL, methods=("CKLIEP-d4", "KLIEP, network"), variants=("code",), first_seed=3, seeds=2)
    cases = ["CKLIEP-d4, code @ 0.03", "KLIEP, network, code @ 0.03 @ 4", "KLIEP, network, code @ 0.03 @ 8"]
    assert [(u.case, u.seed) for u in units(few)] == [(case, seed) for seed in (3, 4) for case in cases]
    assert set(units(few)) <= set(every)
    folder, unit = Path("runs"), units(few)[0]
    assert part_path(folder, few, unit) == part_path(folder, SMALL, unit)
    assert part_path(folder, replace(few, epochs=9), unit) != part_path(folder, SMALL, unit)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("variant", ["printed", "code"])
def test_a_killed_unit_goes_on_with_the_same_numbers(tmp_path, monkeypatch, variant):
    small = replace(SMALL, methods=("CKLIEP-d4",), variants=(variant,), rows=300, last=12, kliep_times=(12,))
    (unit,) = units(small)
    straight = list(run(small, unit, lambda text: None, tmp_path / "straight"))
    steps, fit = [], ContinualDensityRatio.partial_fit

    def partial_fit(self, *args, **kwargs):
        if len(steps) == 2:
            raise KilledError
        steps.append(self)
        return fit(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(ContinualDensityRatio, "partial_fit", partial_fit)
        with pytest.raises(KilledError):
            list(run(small, unit, lambda text: None, tmp_path / "broken"))
    assert len(list((tmp_path / "broken").glob("state-*"))) == 1  # earlier ones are deleted
    went_on = list(run(small, unit, lambda text: None, tmp_path / "broken"))
    for row, again in zip(straight, went_on, strict=True):
        assert {**row, "seconds": 0} == {**again, "seconds": 0}
    assert list(run(small, unit, lambda text: None, tmp_path / "broken")) == went_on  # nothing is run again
    assert {"epochs", "held_out", "converged", "seconds"} <= set(straight[0])


def test_a_diverging_fit_ends_the_line_and_not_the_run(tmp_path, monkeypatch):
    def diverge(self, *args, **kwargs):
        raise FitDivergedError("inf")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", diverge)
    small = replace(SMALL, methods=("CKLIEP-d4", "KLIEP, network"), rows=300)
    for unit in units(small):
        found = list(run(small, unit, lambda text: None, tmp_path))
        assert len(found) == unit.rows
        assert all(np.isnan(row["mae"]) for row in found)


def test_caption_describes_the_methods_that_were_run():
    paper = EXPERIMENT.presets["paper"]
    words = {"KLIEP, fitted": "KLIEP", "TRE": "TRE", "driftline": "driftline", "keeps one window": "driftline"}
    for names in (("TRE, convex",), ("KLIEP, convex",), ("driftline",), ("KLIEP, network", "driftline")):
        said = caption(replace(paper, methods=names, seeds=1))
        assert "One seed." in said
        assert "Shortened: 1 seed instead of 10." in said
        for word, name in words.items():
            assert (word in said) == any(method.startswith(name) for method in names), (names, word)
        assert ("validate" in said) == ("published code" in said) == ("KLIEP, network" in names)
    both = caption(replace(EXPERIMENT.presets["quick"], methods=("CKLIEP-d4", "driftline")))
    assert "CKLIEP and driftline keep one window." in both
    assert "TRE" not in both
    assert "KLIEP, fitted" not in both


def test_caption_says_what_was_shortened():
    assert "4 epochs at rate 0.0004" in caption(EXPERIMENT.presets["quick"])
    paper = EXPERIMENT.presets["paper"]
    assert "Shortened" not in caption(paper)
    assert "Shortened: 100 rows a window instead of 50,000." in caption(replace(paper, rows=100))
    assert "Shortened: bridges of TRE over 10 windows instead of 2." in caption(replace(paper, tre_every=10))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"last": 5}, "--last 5 must be a multiple of 4"),
        ({"kliep_times": (4, 8)}, r"--kliep-times \(4, 8\) must lie between 1 and --last 20, and hold it"),
        ({"kliep_times": (20, 24)}, "--kliep-times"),
        ({"methods": ("CKLIEP",)}, "--methods 'CKLIEP' is unknown: choose from 'CKLIEP-d1', "),
        ({"variants": ("paper",)}, "--variants 'paper' is unknown: choose from 'printed', 'code'"),
        ({"first_seed": -1}, "--first-seed -1 must be at least 0"),
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"tre_every": 3}, "--last 20 must be a multiple of 3"),
        ({"deltas": (0.1,)}, "--deltas"),
    ],
)
def test_plain_mistakes_are_named_before_any_work(wrong, message):
    with pytest.raises(ValueError, match=message):
        Args(**wrong)

"""Fig. 3a,b in small: every method runs, ours is nearest, the words follow the numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from driftline.synthetic import GaussianStream
from experiments.experiment import Unit
from experiments.tracing_single import EXPERIMENT, METHODS, Args, caption, figure, run, units, verdict

SMALL = Args(seeds=1, deltas=(0.03,), dim=4, rows=2000, last=8, epochs=3, rate=1e-3, kliep_every=4, tre_epochs=3)


@pytest.fixture(scope="module")
def frame():
    parts = []
    for unit in units(SMALL):
        found = list(run(SMALL, unit, lambda text: None))
        assert len(found) == unit.rows
        parts.extend({"case": unit.case, "seed": unit.seed, **row} for row in found)
    return pd.DataFrame(parts)


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


def test_methods_share_their_windows_and_seeds_do_not(monkeypatch):
    small, seen = replace(SMALL, last=4), {}

    def watch(name, seed):
        found = []
        original = GaussianStream.sample

        def sample(self, t, n, rng):
            rows = original(self, t, n, rng)
            found.append((t, rows[:5].tobytes()))
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(GaussianStream, "sample", sample)
            list(run(small, Unit(f"{name} @ 0.03", seed, 4), lambda text: None))
        seen[name, seed] = set(found)

    watch("driftline", 3)
    watch("TRE, convex", 3)
    watch("driftline", 4)
    assert seen["driftline", 3] == seen["TRE, convex", 3]
    assert not seen["driftline", 3] & seen["driftline", 4]


def test_figure_has_labels_and_all_methods(frame):
    drawn = figure(frame, SMALL)
    assert len(drawn.axes) == 2
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in drawn.axes)
    assert {line.get_label() for line in drawn.axes[0].lines} == set(METHODS)


def test_verdict_turns_with_the_numbers(frame, check_form):
    doctored = pd.concat([frame, frame.assign(seed=1)], ignore_index=True)
    doctored.loc[doctored.method == "CKLIEP-d1", "mae"] = 1.0
    doctored.loc[doctored.method == "CKLIEP-d4", "mae"] = 2.0
    doctored.loc[doctored.method == "KLIEP, network", "mae"] = 3.0
    doctored.loc[doctored.method == "KLIEP, convex", "mae"] = np.nan
    said = check_form(verdict(doctored, SMALL))
    assert said.startswith("**That smaller steps are better for CKLIEP is seen at Δ=0.03.**")
    assert "CKLIEP-d1 ends ahead of CKLIEP-d4: yes in both seeds at Δ=0.03" in said
    assert "CKLIEP-d1 ends ahead of KLIEP, network: yes in both seeds" in said
    assert "CKLIEP-d4 ends ahead of KLIEP, network: yes in both seeds" in said
    assert "| KLIEP, convex | 2 of 2 fits failed | |" in said
    doctored.loc[doctored.method == "CKLIEP-d1", "mae"] = 4.0
    said = check_form(verdict(doctored, SMALL))
    assert said.startswith("**That smaller steps are better for CKLIEP is not seen at Δ=0.03.**")
    assert "CKLIEP-d1 ends ahead of KLIEP, network: no in both seeds" in said
    assert "CKLIEP-d4 ends ahead of KLIEP, network: yes in both seeds" in said
    doctored.loc[(doctored.method == "CKLIEP-d1") & (doctored.seed == 1), "mae"] = 1.0
    assert "better for CKLIEP is unsettled at" in check_form(verdict(doctored, SMALL))
    doctored.loc[doctored.method == "driftline", "mae"] = 9.0
    said = check_form(verdict(doctored, SMALL))
    assert "relative to driftline's is ×0." in said
    assert "it is not level with driftline" in said


def test_verdict_says_once_what_holds_for_several_deltas(frame, check_form):
    both = pd.concat([frame, frame.assign(delta=0.01)], ignore_index=True)
    said = check_form(verdict(both, replace(SMALL, deltas=(0.03, 0.01))))
    assert "at Δ=0.03 and 0.01.**" in said
    assert "| at t=8, in nats | MAE, Δ=0.03 | KL, Δ=0.03 | MAE, Δ=0.01 | KL, Δ=0.01 |" in said


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
        ({"kliep_every": 0}, "--kliep-every 0 must be at least 1"),
        ({"tre_every": 3}, "--last 20 must be a multiple of 3"),
        ({"deltas": (0.1,)}, "--deltas"),
    ],
)
def test_plain_mistakes_are_named_before_any_work(wrong, message):
    with pytest.raises(ValueError, match=message):
        Args(**wrong)

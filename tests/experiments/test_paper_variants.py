"""The differences between paper and code, in small: each case changes one setting, the words follow the numbers."""

from dataclasses import replace

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from experiments import paper_variants
from experiments.paper_variants import CASES, DIFFERENCES, EXPERIMENT, Args, caption, estimator_of, figure, run, verdict

SMALL = Args(dim=2, delta=0.05, rows=200, last=1, every=1, epochs=1, rate=1e-3)
SMALL_RUN = EXPERIMENT, SMALL, EXPERIMENT.work.units(SMALL)

pytestmark = pytest.mark.networks


def test_each_case_changes_one_setting_of_its_variant():
    printed, code = (ContinualDensityRatio.paper(variant=v, epochs=1).training for v in ("printed", "code"))
    apart = {name for name in printed._fields if getattr(printed, name) != getattr(code, name)}
    assert apart - {"tau"} == set(DIFFERENCES)  # with one original tau is no input
    for case, (variant, changed) in CASES.items():
        found = estimator_of(replace(SMALL, rate=1e-5), case, 0, print).training
        base, other = (printed, code) if variant == "printed" else (code, printed)
        assert found == base._replace(**{changed: getattr(other, changed)} if changed else {}), case


def test_every_case_is_measured(frame, folder):
    assert len(frame) == len(CASES)
    assert set(frame.columns) >= {"t", "variant", "changed", "mae", "kl", "true_kl", "epochs", "held_out", "seconds"}
    assert frame.mae.notna().all()
    assert not any(path.is_dir() for path in (folder / "parts").iterdir())  # finished units leave their rows alone


def test_figure_and_words_follow_the_numbers(frame, check_form):
    drawn = figure(frame, SMALL)
    assert all(ax.get_xlabel() for ax in drawn.axes)
    doctored = frame.assign(mae=1.0)
    doctored.loc[(doctored.variant == "code") & (doctored.changed == "inputs"), "mae"] = 0.5
    said = check_form(verdict(doctored, SMALL))
    assert said.startswith("**Raw inputs, switched off in the code, changes the error most (×0.50).**")
    assert "raw inputs on ×1.00, off ×0.50" in said
    doctored.loc[(doctored.variant == "printed") & (doctored.changed == "constraint"), ["mae", "kl"]] = np.nan
    assert "| inverse constraint | no number | |" in check_form(verdict(doctored, SMALL))
    assert "inverse constraint on failed" in check_form(verdict(doctored, SMALL))


def test_a_failed_fit_leaves_the_rest_without_numbers(tmp_path, monkeypatch):
    calls = []

    def fail(self, *args, **kwargs):
        calls.append(1)
        raise paper_variants.FitDivergedError("inf")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", fail)
    rows = list(run(replace(SMALL, last=2), SMALL_RUN[2][0], lambda text: None, tmp_path))
    assert [row["t"] for row in rows] == [1, 2]
    assert all(np.isnan(row["mae"]) for row in rows)
    assert len(calls) == 1


def test_caption_says_what_was_shortened():
    assert "Shortened" not in caption(EXPERIMENT.presets["paper"])
    assert "epochs 10 instead of 100" in caption(EXPERIMENT.presets["quick"])


def test_plain_mistakes_are_named():
    with pytest.raises(ValueError, match="--every 3 must divide --last 20"):
        Args(every=3)

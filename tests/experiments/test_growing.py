"""Networks that grow, in small: the stream's ratio is exact, networks change at the turn, words follow numbers."""

from dataclasses import replace

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError
from experiments.experiment import Unit
from experiments.growing import (
    DEEPER,
    EXPERIMENT,
    LARGE,
    SMALL,
    WIDENED,
    Args,
    WavingStream,
    caption,
    figure,
    run,
    units,
    verdict,
)

TINY = Args(
    seeds=1,
    dim=4,
    delta=0.1,
    turn=2,
    last=4,
    rows=400,
    batch=100,
    epochs=2,
    rate=1e-2,
    small=(3, 3),
    large=(6, 6),
    deep=(4, 4, 4),
)
SMALL_RUN = EXPERIMENT, TINY, units(TINY)

pytestmark = pytest.mark.networks


def rows_of(args, case, work):
    return list(run(args, Unit(case, 0, args.last), lambda text: None, work))


@pytest.mark.parametrize("t", [1, 3, 5])
def test_log_ratio_turns_the_current_distribution_into_the_original(t):
    stream = WavingStream(4, 0.1, 0.4, 2, 2)
    x = stream.sample(t, 200_000, np.random.default_rng(t))
    weights = np.exp(stream.log_ratio(x, t))
    moments = np.stack([np.ones(len(x)), x[:, 0], x[:, 1], x[:, 1] ** 2, x[:, 1] * np.sin(1.5 * x[:, 0])])
    values = weights * moments
    error = values.std(1) / np.sqrt(len(x))
    np.testing.assert_array_less(np.abs(values.mean(1) - [1.0, 0.0, 0.0, 1.0, 0.0]), 4.5 * error)


def test_a_ratio_is_linear_up_to_the_turn_and_not_after():
    stream, rng = WavingStream(4, 0.1, 0.4, 1, 2), np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50, 4))
    for t, linear in ((2, True), (3, False)):
        curved = stream.log_ratio(0.5 * (x + y), t) - 0.5 * (stream.log_ratio(x, t) + stream.log_ratio(y, t))
        assert np.allclose(curved, 0.0) == linear


def test_networks_are_the_small_one_up_to_the_turn(frame, folder):
    mae = frame.pivot(index="t", columns="case", values="mae")
    for case in (WIDENED, DEEPER):
        assert (mae[case] == mae[SMALL])[: TINY.turn].all()
        assert (mae[case] != mae[SMALL])[TINY.turn :].all()
    assert (mae[LARGE] != mae[SMALL]).all()
    assert not any(path.is_dir() for path in (folder / "parts").iterdir())  # finished units leave their rows alone


@pytest.mark.parametrize("case", [WIDENED, DEEPER])
def test_a_unit_killed_after_the_turn_goes_on_with_its_new_network(case, tmp_path):
    whole = rows_of(TINY, case, tmp_path / "whole")
    stopped = run(TINY, Unit(case, 0, TINY.last), lambda text: None, tmp_path / "stopped")
    for _ in range(TINY.turn + 1):
        next(stopped)
    again = rows_of(TINY, case, tmp_path / "stopped")
    assert [row["mae"] for row in again] == pytest.approx([row["mae"] for row in whole])


def test_a_failed_fit_leaves_the_rest_without_numbers(tmp_path, monkeypatch):
    def fail(self, *args, **kwargs):
        raise FitDivergedError("inf")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", fail)
    rows = rows_of(TINY, SMALL, tmp_path)
    assert [row["t"] for row in rows] == [1, 2, 3, 4]
    assert all(np.isnan(row["mae"]) for row in rows)


def with_ends(frame, **ends):
    """Rows in which all networks have an error of 1 at the turn and these at the end."""
    doctored = frame.assign(mae=1.0)
    for case, value in ends.items():
        doctored.loc[(doctored.case == case) & (doctored.t == TINY.last), "mae"] = value
    return doctored


def test_words_follow_the_numbers(frame, check_form):
    said = check_form(verdict(with_ends(frame, small=3.0, large=2.0, widened=2.25, deeper=2.0), TINY))
    assert said.startswith("**Confirmed: a network that grows at t=2 ends ahead of one that stays small")
    assert "the widened one avoids 75% and the deeper one avoids 100%" in said
    said = check_form(verdict(with_ends(frame, small=3.0, large=2.0, widened=2.5, deeper=3.5), TINY))
    assert said.startswith("**Confirmed for the widened network only")
    assert "the deeper one avoids -50%" in said
    said = check_form(verdict(with_ends(frame, small=2.0, large=2.0, widened=2.5, deeper=3.5), TINY))
    assert said.startswith("**Not seen")
    assert "no share" in said
    assert "no number" in check_form(verdict(with_ends(frame, widened=np.nan), TINY))


def test_figure_has_labelled_axes_and_all_networks(frame):
    drawn = figure(frame, TINY)
    assert all("[" in ax.get_xlabel() and "[" in ax.get_ylabel() for ax in drawn.axes)
    assert len(drawn.legends[0].get_texts()) == 5


def test_caption_says_what_was_changed():
    assert "Changed" not in caption(EXPERIMENT.presets["paper"])
    assert "epochs 20 instead of 500" in caption(EXPERIMENT.presets["quick"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"last": 5}, "--last 5 must be above --turn 5"),
        ({"pairs": 9}, "--pairs 9 must be at most half of --dim 16"),
        ({"large": (8, 300)}, r"--large \(8, 300\) must have as many layers"),
        ({"deep": ()}, "--deep must be widths"),
        ({"wave": 0.0}, "--wave 0 must be above 0"),
    ],
)
def test_plain_mistakes_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(Args(), **wrong)

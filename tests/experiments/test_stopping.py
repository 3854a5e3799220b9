"""The stopping rule, in small: rules read off one training are those of trainings that stop, words follow numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from driftline.fitting import Network, fit_standardizer, mlp_factory
from experiments import stopping
from experiments.stopping import ALL, CURVE, EXPERIMENT, FRESH, STOP, WARM, Args, caption, figure, run, units, verdict

SMALL = Args(
    seeds=2,
    dim=2,
    delta=0.05,
    rows=300,
    batch=100,
    epochs=12,
    least=2,
    every=4,
    rates=(1e-3, 1e-2),
    patiences=(1, 3),
)
SMALL_RUN = EXPERIMENT, SMALL, units(SMALL)

pytestmark = pytest.mark.networks


@pytest.fixture(scope="module", autouse=True)
def _few_rows_to_learn_from():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "_TAUGHT", 1000)
        yield


def test_each_training_has_a_curve_and_a_stop_for_each_rule(frame):
    counts = frame.groupby(["start", "rate", "seed", "kind"]).size().unstack()
    assert (counts[CURVE] == 3).all()
    assert (counts[STOP] == 3).all()
    stops = frame[frame.kind == STOP]
    assert (stops.best <= stops.epochs).all()
    assert (stops[stops.patience == ALL].epochs == SMALL.epochs).all()
    held = stops.pivot_table(index=["start", "rate", "seed"], columns="patience", values="held_out")
    assert (held[ALL] <= held[1]).all()  # the best of more epochs


@pytest.mark.parametrize("patience", SMALL.patiences)
@pytest.mark.parametrize("case", [0, 3])
def test_a_rule_keeps_what_a_training_with_that_patience_keeps(frame, monkeypatch, patience, case):
    unit, real, done = SMALL_RUN[2][case], stopping.fit_network, []

    def impatient(module, pairs, objective, training, **kwargs):
        done.append(real(module, pairs, objective, training._replace(patience=patience), **kwargs))
        return done[-1]

    monkeypatch.setattr(stopping, "fit_network", impatient)
    list(run(SMALL, unit, lambda text: None))
    own = frame[(frame.case == unit.case) & (frame.seed == unit.seed) & (frame.kind == STOP)]
    kept = own[own.patience == patience].iloc[0]
    assert (done[-1].iterations, done[-1].held_out) == (kept.epochs, pytest.approx(kept.held_out))


def test_weights_before_the_first_epoch_compete():
    module = torch.nn.Linear(1, 1)
    watch = stopping._Watch(replace(SMALL, epochs=4), module, lambda: {"mae": module.weight.item()}, 0.5)
    first = module.weight.item()
    for epoch in range(1, 5):
        with torch.no_grad():
            module.weight += 1.0
        watch(epoch, 0.6)
    stops = {row["patience"]: row for row in watch.rows if row["kind"] == STOP}
    assert {patience: row["epochs"] for patience, row in stops.items()} == {1: 2, 3: 3, ALL: 4}
    assert all(row["mae"] == first and row["held_out"] == 0.5 and row["best"] == 0 for row in stops.values())
    assert module.weight.item() == pytest.approx(first + 4.0)  # measuring leaves the training alone


def test_warm_weights_reproduce_a_function():
    rng, network = np.random.default_rng(0), mlp_factory((64, 64), torch.Generator().manual_seed(0))(3, 1)
    x, new = rng.normal(size=(10_000, 3)), rng.normal(size=(2000, 3))
    net = Network(fit_standardizer(x), network, 0, 1)
    stopping._reproduce(net, lambda rows: (rows**2).sum(1), x, SMALL_RUN[2][0])
    off = net(new) - (new**2).sum(1)
    assert (off**2).mean() < 0.05 * (new**2).sum(1).var()


def test_words_follow_the_numbers(frame, check_form):
    level = frame.assign(mae=1.0 + 1e-9 * frame.epochs)
    assert check_form(verdict(level, SMALL)).startswith("**That the stopping rule drives the error is not seen")
    short = (level.kind == STOP) & (level.patience == 1) & (level.start == FRESH)
    level.loc[short, "mae"] = 2.0
    said = check_form(verdict(level, SMALL))
    assert said.startswith("**The stopping rule drives the error: patience 1 has ×2.00 the MAE of all epochs (fresh")
    assert "Warm weights at 0.001 have ×0.50 (patience 1) and ×1.00 (all epochs) the MAE of fresh ones." in said
    assert "At rate 0.01 fresh weights have ×1.00 (patience 1)" in said
    level.loc[short, "mae"] = 0.5
    assert check_form(verdict(level, SMALL)).startswith("**Patience 1 is better than all epochs: it has ×0.50")
    level.loc[short & (level.seed == 0), "mae"] = 2.0
    assert "is not seen" in check_form(verdict(level, SMALL))
    only = replace(SMALL, starts=(FRESH,), rates=(1e-3,))
    part = frame[(frame.start == FRESH) & (frame.rate == 1e-3)]
    assert "At rate" not in check_form(verdict(part, only))
    single = level[level.seed == 0]
    assert check_form(verdict(single, replace(SMALL, seeds=1))).startswith("**One seed suggests that the stopping rule")


def test_figure_has_labelled_axes(frame):
    drawn = figure(frame, SMALL)
    assert all(ax.get_xlabel() and "[nats]" in ax.get_ylabel() for ax in drawn.axes)


def test_a_choice_of_cases_leaves_finished_units_finished():
    assert set(units(replace(SMALL, starts=(WARM,), rates=(1e-2,)))) < set(units(SMALL))


def test_caption_says_what_was_changed():
    assert "Changed" not in caption(EXPERIMENT.presets["paper"])
    assert "epochs 125 instead of 500" in caption(EXPERIMENT.presets["quick"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"every": 7}, "--every 7 must divide --epochs 500"),
        ({"starts": ("cold",)}, "--starts 'cold' is unknown: choose from 'fresh', 'warm'"),
        ({"delta": 0.2}, "--delta 0.2 must be above 0 and below 1/5"),
        ({"patiences": (0,)}, "--patiences 0: at least one is needed, each above 0"),
        ({"rates": ()}, "--rates"),
    ],
)
def test_plain_mistakes_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(Args(), **wrong)

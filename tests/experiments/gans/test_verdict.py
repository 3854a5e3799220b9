"""The verdict and the figures of the GANs follow the numbers, whichever judges were run."""

import numpy as np
import pandas as pd
import pytest

from experiments.gans.experiment import Args, caption, figure, verdict
from experiments.gans.figures import _estimators, against_truth
from experiments.gans.judges import ESTIMATORS, METRICS, averages, label, leading
from experiments.gans.losses import LOSSES
from experiments.gans.measures import AGREEMENT, DIVERGENCES, KEEPING, MEASURES
from experiments.gans.samples import DIVERGED, SECONDS
from experiments.gans.verdict import ranking

EXPECTED = dict(zip(LOSSES, (0.1, 0.11, 0.5, 0.2), strict=True))
JUDGES = {"paper": ("latest", "draw"), "default": ("own", "draw")}


def invented(values=EXPECTED, judges=JUDGES, agreement=0.9, factor=1.0, tasks=3):
    """Rows of all models: each measure is the model's value, an estimator's by a factor; real images say the truth."""
    rows = []
    for model, value in values.items():
        for task in range(1, tasks + 1):
            about = {"case": model, "seed": 0, "task": task, "note": "", "estimator_seed": 0, "doubts": 1}
            for measure, number in ((SECONDS, 60.0), (DIVERGED, 0.0)):
                rows.append(
                    {"case": model, "seed": 0, "task": task, "original": 0, "measure": measure, "value": number}
                )
            for original in range(1, task + 1):
                one = {**about, "original": original}
                for measure in (*KEEPING, AGREEMENT):
                    reading = agreement if measure == AGREEMENT else -value if MEASURES[measure].higher else value
                    where = {"estimator": METRICS, "features": "classifier", "encoder": "", "output": ""}
                    rows.append({**one, **where, "measure": measure, "value": reading})
                for name, (encoder, output) in judges.items():
                    where = {"features": "vae", "encoder": encoder, "output": output}
                    for measure in DIVERGENCES:
                        rows.append({**one, **where, "estimator": name, "measure": measure, "value": factor * value})
                        rows.append({**one, **where, "estimator": "static", "measure": measure, "value": value})
    return pd.DataFrame(rows)


def test_verdict_follows_the_numbers(check_form):
    good = check_form(verdict(invented(), Args()))
    assert good.startswith("**As asked, on 1 training: f-GAN by reverse KL is the worst, ")
    assert "CKLIEP is within 25% of static estimation in 16 of 16 cases" in good
    order = "WGAN < WGAN-GP < fGAN-JS < fGAN-rvKL"
    assert f"| CKLIEP on VAE (latest, draw) | reverse KL, KL, Jensen-Shannon, squared Hellinger | {order} |" in good
    assert f"| real images kept | FID, KID, PRD recall (F8), PRD precision (F1/8) | {order} |" in good
    assert "| driftline on VAE (own, draw) | KL | 100% | 1.00 | 100% |" in good
    assert "WGAN-GP relative to WGAN: FID 1.10" in good
    assert "Readings with a doubt: CKLIEP 100%" in good
    worse = check_form(verdict(invented({**EXPECTED, "wgan": 0.6}), Args()))
    assert worse.startswith("**In part as asked, on 1 training: f-GAN by reverse KL is not the worst, ")
    assert "here it is not, by FID, KID and CKLIEP on VAE (latest, draw)." in worse
    assert "WGAN-GP are not all recognised" in check_form(verdict(invented(agreement=0.5), Args()))
    far = check_form(verdict(invented(factor=1.3), Args()))
    assert "in 0 of 16 cases" in far
    assert "+30%" in far


@pytest.mark.parametrize(("judges", "first"), [({"default": ("own", "mean")}, "driftline"), ({}, "")])
def test_nothing_is_said_of_estimators_that_were_not_run(check_form, judges, first):
    frame = invented(judges=judges)
    said = check_form(verdict(frame, Args()))
    assert "CKLIEP" not in said + caption(Args(estimator=tuple(judges) or ("static",)))
    assert ("driftline is within" in said) == bool(first)
    title = figure(frame, Args()).get_suptitle()
    assert title.endswith(f"divergences: {first} on VAE (own, mean)" if first else "agreement: classifier")
    assert "CKLIEP (at most 100 epochs a step in batches of 500; the authors" in caption(
        Args(estimator=("paper", "static"))
    )


def test_a_model_that_diverged_is_named_and_ranked_only_until_then(check_form):
    frame = invented()
    gone = (frame.case == "fgan-rvkl") & (frame.task > 1)
    frame.loc[gone, "value"] = np.where(frame[gone].measure == DIVERGED, 1.0, np.nan)
    said = check_form(verdict(frame, Args()))
    assert "have no samples: fGAN-rvKL from task 2 on." in said
    assert ranking(averages(frame), "paper/vae/latest/draw", "kl")[-1] == "fgan-rvkl"  # of the first task
    assert figure(frame, Args()).axes[0].get_legend_handles_labels()[1] == [loss.label for loss in LOSSES.values()]


def test_a_class_without_a_number_leaves_no_average():
    frame = invented()
    frame.loc[(frame.task == 3) & (frame.original == 2) & (frame.measure == "js"), "value"] = np.nan
    means = averages(frame)
    assert means[(means.task == 3) & (means.measure == "js")].value.isna().all()
    assert means[means.task == 2].value.notna().all()


def test_values_that_no_divergence_has_are_left_out(check_form):
    frame = invented(dict.fromkeys(LOSSES, 0.3))
    frame.loc[(frame.case == "wgan") & (frame.task == 3) & (frame.measure == "hellinger"), "value"] = -2e14
    means = averages(frame)
    gone = means[means.value.isna()]
    assert (set(gone.case), set(gone.measure), set(gone.task)) == ({"wgan"}, {"hellinger"}, {3})
    said = check_form(verdict(frame, Args()))
    assert "outside their range, left out: driftline on vae 3, CKLIEP on vae 3, static on vae 6." in said


def test_the_first_figure_is_ckliep_s_where_it_was_run():
    assert leading(invented()) == "paper/vae/latest/draw"
    assert label("default/classifier") == "driftline on classifier"
    drawn = figure(invented(factor=1.02), Args())
    assert drawn.get_suptitle() == "FID, KID, agreement: classifier; divergences: CKLIEP on VAE (latest, draw)"
    panels = {ax.get_title(): ax for ax in drawn.axes}
    assert list(panels)[:5] == ["FID", "KID", "classifier agrees", "reverse KL, nats", "KL, nats"]
    solid, dashed = panels["KL, nats"].get_lines()[0], panels["KL, nats"].get_lines()[-1]
    assert solid.get_ydata()[0] == pytest.approx(0.102)
    assert (dashed.get_linestyle(), dashed.get_ydata()[0]) == ("--", 0.2)
    ticks = [text.get_text() for text in panels["KL, nats"].get_yticklabels()]
    assert set(ticks) <= {"0.1", "0.2", "0.5"}
    assert len(ticks) > 1


def test_each_estimator_stands_against_the_truth_in_its_own_features():
    found = against_truth(averages(invented(factor=1.3)))
    assert set(found.judge) == {"paper/vae/latest/draw", "default/vae/own/draw"}
    np.testing.assert_allclose(found.value, 1.3 * found.truth)
    drawn = _estimators(found)
    assert [ax.get_ylabel() for ax in drawn.axes[:: len(DIVERGENCES)]] == [
        "CKLIEP\non VAE (latest, draw)",
        "driftline\non VAE (own, draw)",
    ]
    assert len(drawn.axes) == 2 * len(DIVERGENCES)
    assert set(ESTIMATORS) > set(JUDGES)

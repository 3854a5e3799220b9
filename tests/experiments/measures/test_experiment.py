"""The demo experiments in small, on scikit-learn's digits: samples, noises, truths, rows, figures, verdicts."""

import numpy as np
import pandas as pd
import pytest

from driftline.features import ClassifierFeatures
from experiments.__main__ import main
from experiments.experiment import Unit
from experiments.labelled import Data, load
from experiments.measures.cases import CLEAN, GREY, HALVES, NOISES, TRUTHS, Noise, corrupted, halves, noisy, truths
from experiments.measures.experiment import EXPERIMENT, Args, caption, extras, figure, run, units, verdict
from experiments.measures.readings import CURVE, DEFAULT, HELD, HELD_OUT, KLIEP, LINEAR, NONE, held_out
from experiments.measures.verdict import of_halves, of_noises
from experiments.parts import part_path

SMALL = Args(
    seeds=1,
    dataset="digits",
    rows=200,
    pixel_rows=300,
    held=100,
    epochs=3,
    subsets=3,
    angles=11,
    classifier_width=0.125,
    classifier_epochs=15,
)
SMALL_RUN = EXPERIMENT, SMALL, units(SMALL)


def numbered(size=600):
    """Images that tell which they are, of ten classes in unequal shares."""
    images = np.repeat(np.arange(size, dtype=np.float32), 16).reshape(size, 4, 4) / 997.0
    labels = np.concatenate([np.arange(size - 100) % 10, np.zeros(100)]).astype(np.int64)
    return Data(images, labels, images[:10], labels[:10])


@pytest.mark.parametrize("case", HALVES)
def test_halves_share_no_image_and_have_their_classes(case):
    data = numbered()
    found = halves(data, case, 100, 50, seed=3)
    numbers = [np.round(part[:, 0, 0] * 997).astype(int) for part in found[:4]]
    assert [len(n) for n in numbers] == [100, 100, 50, 50]
    assert len(set(np.concatenate(numbers))) == 300
    few, full = (numbers[0], numbers[1]) if case == "P half" else (numbers[1], numbers[0])
    assert set(data.train_labels[few]) == {0, 1, 2, 3, 4}
    assert len(set(data.train_labels[full])) == 10
    assert found.share == pytest.approx((250 + 100) / 600)
    again, other = halves(data, case, 100, 50, seed=3), halves(data, case, 100, 50, seed=4)
    np.testing.assert_array_equal(found.p, again.p)
    assert (found.p != other.p).any()


def test_too_many_images_are_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"--rows 250 --held 50: .* 300 are needed"):
        halves(numbered(), "P half", 250, 50, seed=0)
    with pytest.raises(ValueError, match=r"--pixel-rows 280 --held 50: .* 600 images"):
        noisy(numbered(), CLEAN, 280, 50, seed=0)
    with pytest.raises(ValueError, match=r"--held 9 must be at least 100"):
        Args(held=9)


@pytest.mark.parametrize("shared", [True, False])
def test_noise_is_what_it_says(shared):
    images = np.random.default_rng(0).integers(0, 256, (1000, 5, 5)).astype(np.float32) / np.float32(255)
    kept = images.copy()
    out, hit = corrupted(images, Noise(0.3, 4, shared), np.random.default_rng(1))
    np.testing.assert_array_equal(images, kept)  # a copy
    assert hit.sum() == 300
    np.testing.assert_array_equal(out[~hit], images[~hit])
    grey = (out == GREY).reshape(1000, -1)
    assert not (images == GREY).any()  # no byte is grey: a corrupted image is never a real one
    assert (grey.sum(1) == np.where(hit, 4, 0)).all()
    rest = ~grey
    np.testing.assert_array_equal(out.reshape(1000, -1)[rest], images.reshape(1000, -1)[rest])
    counts = grey.sum(0)
    if shared:
        assert sorted(counts) == [0] * 21 + [300] * 4
    else:  # each pixel of 300 images with chance 4/25: mean 48, sd 6.3
        assert (abs(counts - 48) < 5 * 6.3).all()


def test_noises_of_a_seed_are_on_the_same_images():
    data = load("digits")
    clean, few = (noisy(data, case, 300, 100, seed=1) for case in (CLEAN, "few pixels, shared"))
    np.testing.assert_array_equal(clean.p, few.p)
    changed = (clean.q != few.q).reshape(300, -1)
    assert changed.any(0).sum() == 1
    # half of 400 images; those in the first 300 are hypergeometric with sd 4.3, an image may be 0.5 there already
    assert 100 < changed.any(1).sum() < 150 + 5 * 4.3
    assert (clean.share, few.share) == (1.0, 0.5)


@pytest.mark.parametrize("share", [0.5, 0.51, 0.9, 1.0])
def test_truths_are_those_of_discrete_distributions(share):
    q, p = np.array([share / 2, share / 2, 1.0 - share]), np.array([0.5, 0.5, 0.0])
    expected = truths(share, p_within=True)
    middle = 0.5 * (p + q)
    assert expected["kl"] == pytest.approx(_kl(p, q))
    assert expected["js"] == pytest.approx(0.5 * (_kl(p, middle) + _kl(q, middle)))
    assert expected["hellinger"] == pytest.approx(1.0 - np.sqrt(p * q).sum())
    assert expected["reverse_kl"] == (0.0 if share == 1.0 else np.inf)
    turned = truths(share, p_within=False)
    assert (turned["kl"], turned["reverse_kl"]) == (expected["reverse_kl"], expected["kl"])
    assert (turned["js"], turned["hellinger"]) == (expected["js"], expected["hellinger"])


def test_known_truths():
    half = truths(0.5, p_within=True)
    assert half["kl"] == pytest.approx(np.log(2))
    assert half["js"] == pytest.approx(0.2158, abs=1e-4)
    assert half["hellinger"] == pytest.approx(0.2929, abs=1e-4)
    assert truths(0.9, p_within=True)["kl"] == pytest.approx(0.1054, abs=1e-4)


def _kl(p, q):
    held = p > 0
    return float((p[held] * np.log(p[held] / q[held])).sum())


def test_held_out_divergences_are_right_for_the_true_ratio():
    """N(0,1) over N(1,1): both KL are 1/2. Standard error of a mean of log-ratios (sd 1): 0.0032."""
    rng = np.random.default_rng(0)
    p, q = rng.normal(0, 1, 100_000), rng.normal(1, 1, 100_000)
    found = held_out(0.5 - p, 0.5 - q)
    assert found["kl"] == pytest.approx(0.5, abs=4 * 0.0032)
    assert found["reverse_kl"] == pytest.approx(0.5, abs=4 * 0.0032)
    grid = np.linspace(-8, 9, 20_001)
    densities = [np.exp(-0.5 * (grid - mean) ** 2) / np.sqrt(2 * np.pi) for mean in (0, 1)]
    middle = 0.5 * sum(densities)
    js = 0.5 * sum(np.trapezoid(d * np.log(d / middle), grid) for d in densities)
    assert found["js"] == pytest.approx(js, abs=4 * 0.001)
    assert held_out(p - 0.5, q - 0.5)["js"] < 0.0  # a wrong ratio makes it smaller


def test_rows_are_tidy(frame):
    assert list(frame.columns) == ["case", "seed", "estimator", "measure", "value", "truth", "at"]
    assert np.isfinite(frame.value).all()
    on_pixels, on_features = frame[~frame.case.isin(HALVES)], frame[frame.case.isin(HALVES)]
    divergences = {*TRUTHS, *(HELD + m for m in HELD_OUT)}
    assert set(on_pixels.measure) == {"fid", "kid"} | divergences
    assert set(on_pixels.estimator) == {NONE, DEFAULT, LINEAR, KLIEP}
    assert set(on_features.measure) == {"fid", "kid", "f_8", "f_1_8", "precision", "recall", CURVE} | divergences
    assert set(on_features.estimator) == {NONE, DEFAULT, KLIEP}
    assert (on_features.measure == CURVE).sum() == 2 * SMALL.angles
    assert frame[frame.measure.isin(divergences)].truth.notna().all()
    assert frame[(frame.case == CLEAN) & (frame.estimator == DEFAULT)].truth.eq(0.0).all()


def test_what_is_infinite_reads_larger(frame):
    """KL(P‖Q) is log 2 with half the classes in P; the other way it is infinite. PRD's recall goes along."""
    found = frame[frame.estimator == DEFAULT].set_index(["case", "measure"]).value
    assert found["P half", f"{HELD}kl"] < found["Q half", f"{HELD}kl"]
    assert found["Q half", f"{HELD}reverse_kl"] < found["P half", f"{HELD}reverse_kl"]
    scores = frame[frame.estimator == NONE].set_index(["case", "measure"]).value
    assert scores["P half", "f_8"] > scores["Q half", "f_8"]
    assert scores["P half", "f_1_8"] < scores["Q half", "f_1_8"]


def test_a_unit_run_again_finds_the_same_and_does_not_train_the_classifier(folder, frame, monkeypatch):
    monkeypatch.setattr(ClassifierFeatures, "fit", None)
    unit = Unit("Q half", 0, 0)
    again = pd.DataFrame(run(SMALL, unit, lambda text: None, part_path(folder, SMALL, unit).with_suffix("")))
    np.testing.assert_allclose(again.value, frame[frame.case == "Q half"].value, rtol=1e-9)


def test_figures_are_drawn(folder, frame):
    titles = [ax.get_title() for ax in figure(frame, SMALL).axes]
    assert titles == 2 * ["FID", "KID", "KL(P‖Q)", "KL(Q‖P)", "Jensen-Shannon", "Hellinger²"]
    found = extras(folder, frame, SMALL)
    assert sorted(found) == [CURVE, "samples"]
    assert len(found[CURVE].axes[0].lines) == 2
    assert len(found["samples"].axes) == 5
    assert "digits" in caption(SMALL)
    assert "instead of" not in caption(EXPERIMENT.presets["paper"])


def test_datasets_have_folders_of_their_own(tmp_path, monkeypatch):
    places = []

    def execute(experiment, args, out, **more):
        places.append(experiment.place(out, args))
        places[-1].mkdir()
        (places[-1] / "verdict.md").write_text("fine")

    monkeypatch.setattr("experiments.__main__.execute", execute)
    assert not EXPERIMENT.in_all
    assert main(["measures", "--out", str(tmp_path)]) == 0
    assert main(["measures", "--dataset", "fashion-mnist", "--out", str(tmp_path)]) == 0
    assert [p.name for p in places] == ["measures", "measures-fashion-mnist"]


def invented(values, seeds=3):
    """Rows from {(case, estimator, measure): value}, a little different in each seed."""
    rows = []
    for (case, name, measure), value in values.items():
        share = NOISES[case].share if case in NOISES else 0.0 if case == CLEAN else 0.5
        truth = truths(1.0 - share, p_within=case != "Q half").get(measure, np.nan)
        rows += [
            {
                "case": case,
                "seed": seed,
                "estimator": name,
                "measure": measure,
                "truth": truth,
                "value": value * (1 + 0.01 * seed),
            }
            for seed in range(seeds)
        ]
    return pd.DataFrame(rows)


def expected_halves():
    values = {}
    for case in HALVES:
        values |= {(case, NONE, "fid"): 20.0, (case, NONE, "kid"): 0.5}
        for name in (DEFAULT, KLIEP):
            values |= {
                (case, name, m): v if np.isfinite(v) else 3.0 for m, v in truths(0.5, p_within=case == "P half").items()
            }
    return values


def expected_noises():
    values = {}
    for case in (CLEAN, *NOISES):
        many = case.startswith("many")
        values |= {(case, NONE, "fid"): 1.0 if many else 0.4, (case, NONE, "kid"): 3e-4 if many else 1e-4}
        for name in (DEFAULT, LINEAR, KLIEP):
            kl = 0.0 if case == CLEAN else 0.1 if many else 0.7
            values |= {(case, name, m): kl for m in ("kl", "reverse_kl", HELD + "kl")}
    return values


def test_verdict_on_halves_follows_the_numbers():
    values = expected_halves()
    good = of_halves(invented(values))
    assert good.finding == "confirmed"
    assert good.blind
    one = of_halves(invented({**values, ("Q half", KLIEP, "reverse_kl"): 4.0}))
    assert one.finding == "confirmed with driftline only"
    assert "| KL(Q‖P), KLIEP | 3.03 ± 0.03 | 4.04 ± 0.04 | 0 of 3 runs |" in one.table
    seen = of_halves(invented({**values, ("Q half", NONE, "fid"): 25.0}))
    assert seen.finding == "not confirmed"
    assert not seen.blind
    noisy_fid = invented(values)
    fids = (noisy_fid.measure == "fid") & (noisy_fid.case == "Q half")
    noisy_fid.loc[fids, "value"] = [10.0, 22.0, 34.0]  # 10 % apart on average, but by less than its standard error, 7
    assert of_halves(noisy_fid).blind
    turned = {("Q half" if case == "P half" else "P half", *rest): value for (case, *rest), value in values.items()}
    wrong = of_halves(invented(turned))
    assert wrong.finding == "not confirmed"
    assert wrong.blind
    off = of_halves(invented({**values, ("P half", KLIEP, "js"): 2 * values["P half", KLIEP, "js"]}))
    assert "KLIEP +102% (JS, P half)" in off.details[1]  # seeds are 1 % above on average


def test_verdict_on_noises_follows_the_numbers():
    values = expected_noises()
    good = of_noises(invented(values))
    assert f"the same pixels in all images: seen with {DEFAULT} and {LINEAR} and {KLIEP};" in good.finding
    assert good.finding.endswith(f"on each image's own: seen with {DEFAULT} and {LINEAR} and {KLIEP}")
    blind = of_noises(invented({**values, ("few pixels, own", NONE, "fid"): 2.0}))
    assert blind.finding.endswith("own: not seen")
    turned = {("many pixels, shared", name, "reverse_kl"): 5.0 for name in (DEFAULT, LINEAR, KLIEP)}
    half = of_noises(invented({**values, **turned}))
    assert f"images: seen for FID against KL(P‖Q) with {DEFAULT} and {LINEAR} and {KLIEP} only;" in half.finding
    noise = {(CLEAN, name, "kl"): 0.9 for name in (DEFAULT, LINEAR, KLIEP)}
    assert "images: not seen; on each image's own: not seen" in of_noises(invented({**values, **noise})).finding
    diverged = of_noises(invented({**values, ("few pixels, own", KLIEP, "kl"): np.nan}))
    assert diverged.finding.endswith(f"own: seen with {DEFAULT} and {LINEAR}")
    assert f"| own pixels | {KLIEP} | no number | " in diverged.details[2]


def test_verdict_has_its_form(frame, check_form):
    assert check_form(verdict(frame, SMALL)).startswith("**Half of the classes: ")
    good = check_form(verdict(invented(expected_halves() | expected_noises()), SMALL))
    assert good.startswith("**Half of the classes: confirmed; noise on the same pixels in all images: seen with ")
    assert "cannot tell the two apart; here they cannot." in good


def test_units_are_cases_by_seed_and_pixels_come_first():
    found = units(Args(seeds=2))
    assert len(found) == 14
    assert {u.case for u in found[-4:]} == set(HALVES)

"""The verdict on the demo experiments follows the numbers."""

import numpy as np
import pandas as pd

from experiments.measures.cases import CLEAN, HALVES, NOISES, truths
from experiments.measures.readings import DEFAULT, HELD, KLIEP, LINEAR, NONE
from experiments.measures.verdict import of_halves, of_noises, verdict_of


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
    assert f"| own pixels | {KLIEP} | no number | " in diverged.details[3]


def test_both_halves_of_the_verdict_are_one_sentence(check_form):
    good = check_form(verdict_of(invented(expected_halves() | expected_noises())))
    assert good.startswith("**Half of the classes: confirmed; noise on the same pixels in all images: seen with ")
    assert "cannot tell the two apart; here they cannot." in good

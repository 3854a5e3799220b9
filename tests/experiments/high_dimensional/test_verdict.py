"""The verdict on many dimensions follows the numbers."""

import pandas as pd

from experiments.high_dimensional.estimators import BOUNDS, HELD_OUT, PLUG_IN
from experiments.high_dimensional.samples import gaussian_truth
from experiments.high_dimensional.table import tabled
from experiments.high_dimensional.verdict import judge, verdict_of

MADE = ("best", "middle", "worst")


def invented(null=0.01, factor=1.0, spread=0.01, levels=(1.0, 2.0, 3.0)):
    """Rows of one estimator, both ways alike, over two draws; FID sorts the samples as they are listed."""
    rows = []
    for seed, sign in ((0, -1.0), (1, 1.0)):
        for k, (case, level) in enumerate(zip(MADE, levels, strict=True)):
            rows.append((case, seed, "fid", "fid", "fit", 10.0 * (k + 1)))
            rows += [
                (case, seed, "auto", m, w, level * (1 + sign * spread)) for m in BOUNDS for w in (PLUG_IN, HELD_OUT)
            ]
        rows.append(("real", seed, "fid", "fid", "fit", 1.0))
        rows += [("real", seed, "auto", m, w, null) for m in BOUNDS for w in (PLUG_IN, HELD_OUT)]
        for m in BOUNDS:
            rows.append(("gaussians", seed, "truth", m, "truth", gaussian_truth(m, 0.5)))
            rows += [("gaussians", seed, "auto", m, w, factor * gaussian_truth(m, 0.5)) for w in (PLUG_IN, HELD_OUT)]
    return pd.DataFrame(rows, columns=["case", "seed", "estimator", "measure", "way", "value"])


def test_verdict_follows_the_numbers(check_form):
    good = invented()
    assert judge(tabled(good), "auto", PLUG_IN) == (True, True, True, True)
    assert check_form(verdict_of(good)).startswith("**As claimed by all estimators.** ")
    for wrong, field in (
        (invented(null=0.2), "null"),
        (invented(factor=1.2), "truth"),
        (invented(spread=0.2), "spread"),
        (invented(levels=(2.0, 1.0, 3.0)), "order"),
    ):
        judged = judge(tabled(wrong), "auto", PLUG_IN)._asdict()
        assert [name for name, met in judged.items() if not met] == [field]
        assert verdict_of(wrong).startswith("**Not confirmed by any estimator.**")
    other = invented(null=0.2).query("estimator == 'auto'").assign(estimator="printed")
    assert verdict_of(pd.concat([good, other])).startswith("**As claimed by driftline (auto) only.**")

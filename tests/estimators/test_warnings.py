"""Warnings: raised by public methods alone, at the user's line, with the words of the doubts."""

import runpy
import warnings

import numpy as np
import polars as pl
import pytest

from driftline import ContinualDensityRatio, DensityRatio, Doubt, DoubtCode, Monitor, UntrustedEstimateWarning
from driftline.estimators import warn_of

SCRIPT = """
import numpy as np
from driftline import ContinualDensityRatio, DensityRatio, Monitor

rng = np.random.default_rng(0)
a, b = rng.normal(size=(400, 3)), rng.normal(0.1, 1.0, (400, 3))
sides = rng.choice([-1.0, 1.0], (400, 1))
between, far = (s * sides + rng.normal(0.0, 0.4, (400, 3)) for s in (1.5, 2.5))

static = DensityRatio(random_state=0)
static.fit(a, far)  # warns
static.divergence("pearson")  # warns
est = ContinualDensityRatio(random_state=0).fit(a).partial_fit(b)
est.partial_fit(between)  # warns
est.partial_fit(far)  # warns
est.divergence("kl")  # warns
est.divergence("reverse_kl")  # warns
est.step_divergence("pearson")  # warns
est.weights(a)  # warns
est.attribution()  # warns
est.log_ratio(a)  # warns


def inside(rows):
    return est.divergence(
        "pearson",  # a call of several lines is where it begins
        rows,
    )


inside(far)
"""


def test_warnings_point_at_the_line_that_asked(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    lines = SCRIPT.splitlines()
    wanted = {i for i, line in enumerate(lines, 1) if line.endswith("# warns") or "return est.divergence(" in line}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runpy.run_path(str(script))
    assert {w.category for w in caught} == {UntrustedEstimateWarning}
    assert {w.filename for w in caught} == {str(script)}
    assert {w.lineno for w in caught} == wanted


def test_a_monitor_warns_only_where_arrays_are_asked_for():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(3000, 8)), rng.normal(1.0, 0.8, (3000, 8))
    tables = [pl.DataFrame(values, schema=list("abcdefgh")) for values in samples]
    settings = {"window": 3000, "model": "quadratic", "divergences": ("reverse_kl", "pearson")}
    with Monitor(**settings) as monitor:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(monitor.watch(tables))[-1].doubts
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monitor.log_ratio(tables[1])
            ratios = len(caught)
            monitor.weights(tables[1])
    assert 0 < ratios < len(caught)
    assert "the weights rest on" in " ".join(str(w.message) for w in caught[ratios:])
    assert {w.filename for w in caught} == {__file__}


def test_warnings_are_the_doubts_in_words(rng):
    a, far = rng.normal(size=(300, 4)), rng.normal(2.0, 1.0, (300, 4))
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(a)
    with pytest.warns(UntrustedEstimateWarning) as caught:
        est.partial_fit(far)
    assert [str(w.message) for w in caught] == [str(d) for d in est.info_.originals["original"].doubts]
    with pytest.warns(UntrustedEstimateWarning) as caught:
        estimate = est.divergence("pearson")
    assert [str(w.message) for w in caught] == [str(d) for d in estimate.doubts]
    assert estimate.doubts[0].code == DoubtCode.FEW_FOR_DIVERGENCE
    assert estimate.doubts[0].concerns == ("pearson",)


def test_several_originals_are_named(rng):
    a, far = rng.normal(size=(300, 2)), rng.normal(9.0, 0.5, (300, 2))
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(a).add_original(a, name="spring")
    with pytest.warns(UntrustedEstimateWarning, match="^spring: the two windows hardly overlap"):
        est.partial_fit({"spring": far})


def test_columns_are_named():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
    a[:, 2], b[7, 1] = 5.0, 1e4
    doubts = {doubt.code: doubt for doubt in DensityRatio(model="quadratic", random_state=0).fit(a, b).info_.doubts}
    assert doubts[DoubtCode.OUTLIER].concerns == ("1",)
    assert doubts[DoubtCode.CONSTANT_MOVED].concerns == ("2",)


def test_nothing_is_warned_of_without_doubts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of(())
        with pytest.raises(UntrustedEstimateWarning, match=r"^spring: few$"):
            warn_of([Doubt(DoubtCode.FEW_ROWS, "few")], "spring: ")

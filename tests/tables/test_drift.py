"""Tables through the encoder into the estimator: without drift it finds none, and known drift has its true size."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from driftline import ContinualDensityRatio, DriftAlarm, Signal
from driftline.tables import TableEncoder


def mixed(rng, rows, missing=0.1, colours=(0.55, 0.3, 0.12, 0.03)):
    """A table with heavy tails on one side and on both, counts, categories and a flag; some values are missing."""
    skewed = np.where(rng.random(rows) < missing, np.nan, rng.lognormal(3.0, 1.5, rows))
    return pa.table(
        {
            "amount": 100.0 + 30.0 * rng.standard_t(1.5, rows),
            "skewed": pa.array(skewed, from_pandas=True),
            "count": rng.poisson(3.0, rows),
            "colour": rng.choice(["red", "blue", "green", "teal"], rows, p=colours),
            "member": pa.array(rng.random(rows) < 0.3, mask=rng.random(rows) < 0.05),
        }
    )


def traced(windows, model="auto"):
    """Return the encoder and the estimator after these windows."""
    windows = iter(windows)
    first = next(windows)
    encoder = TableEncoder.fit(first)
    est = ContinualDensityRatio(model=model, random_state=0).fit(encoder.transform(first).values)
    for window in windows:
        est.partial_fit(encoder.transform(window).values)
    return encoder, est


def quick_and_slow(few, many):
    """Parametrize a test with so many seeds from 1000 on, and with more of them in the slow tests."""
    seeds = [range(1000, 1000 + few), pytest.param(range(1000, 1000 + many), marks=pytest.mark.slow)]
    return pytest.mark.parametrize("seeds", seeds, ids=lambda seeds: f"{len(seeds)} seeds")


def drifts(make, seeds, **params):
    """Return reverse_kl of the last window for each seed; ``make(rng)`` yields windows."""
    return [traced(make(np.random.default_rng(s)), **params)[1].divergence("reverse_kl") for s in seeds]


def check_truth(found, truth, slack=0.0):
    """Check that the mean is within four standard errors, and that 95 % intervals hold the truth often enough."""
    values = np.array([e.value for e in found])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - truth) < 4.0 * error + slack
    held = sum(e.low <= truth <= e.high for e in found)
    assert held >= stats.binom.ppf(1e-3, len(found), 0.95)


@quick_and_slow(10, 24)
def test_estimates_without_drift_scatter_around_zero(seeds):
    found = drifts(lambda rng: (mixed(rng, 1000) for _ in range(3)), seeds)
    ratios = np.array([e.value / e.noise_std for e in found])
    # the noise has unit variance in these units, so the mean of 10 has a standard error of 0.32, of 24 one of 0.2
    assert abs(ratios.mean()) < 4.0 / np.sqrt(len(ratios))
    # a spread is known to 1 / sqrt(2 n): with 24, 0.4 is four of these below 1; with 10 it is 2.7
    assert 0.4 < ratios.std() < 1.6
    held = sum(e.low <= 0.0 for e in found)  # one side of a 95 % interval: 97.5 %
    assert held >= stats.binom.ppf(1e-3, len(found), 0.975)


@quick_and_slow(6, 12)
def test_a_category_that_grows_has_the_divergence_of_its_probabilities(seeds):
    then, now = (0.55, 0.3, 0.12, 0.03), (0.4, 0.3, 0.22, 0.08)
    truth = float(np.sum(np.array(now) * np.log(np.array(now) / then)))

    def windows(rng):
        yield mixed(rng, 2000, colours=then)
        yield mixed(rng, 2000, colours=np.add(then, now) / 2.0)
        yield mixed(rng, 2000, colours=now)

    check_truth(drifts(windows, seeds), truth, slack=0.02 * truth)


@quick_and_slow(6, 12)
def test_more_missing_values_have_the_divergence_of_their_shares(seeds):
    truth = 0.25 * np.log(0.25 / 0.1) + 0.75 * np.log(0.75 / 0.9)

    def windows(rng):
        yield mixed(rng, 2000, missing=0.1)
        yield mixed(rng, 2000, missing=0.25)

    check_truth(drifts(windows, seeds), truth, slack=0.02 * truth)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_column_that_becomes_partly_missing_is_seen(share, rng):
    def window(missing):
        table = mixed(rng, 3000)
        return table.set_column(2, "count", pa.array(table["count"].to_numpy(), mask=rng.random(3000) < missing))

    encoder, est = traced([window(0.0), window(0.0)])
    alarm = DriftAlarm(tolerance=0.02)
    assert alarm.update(est.divergence(), est.step_divergence()).signal is Signal.NORMAL
    est.partial_fit(encoder.transform(window(share)).values)
    assert alarm.update(est.divergence(), est.step_divergence()).signal is Signal.ALARM
    top = est.attribution()[0]
    assert encoder.names[top.column] == "count missing"
    assert top.share > 0.8


HEAVY = {
    "Student, moved": (stats.t(1.5), stats.t(1.5, loc=0.5)),
    "log-normal, scaled": (stats.lognorm(1.5), stats.lognorm(1.5, scale=np.exp(0.5))),
    "Pareto, lighter": (stats.pareto(1.2), stats.pareto(1.5)),
}


@quick_and_slow(4, 6)
@pytest.mark.parametrize("case", HEAVY)
def test_heavy_tails_keep_their_divergence_in_soft_limits(case, seeds):
    """Divergences do not change under invertible maps such as the soft limit; ``auto`` has to find the model."""
    then, now = HEAVY[case]
    grid = now.ppf((np.arange(200_000) + 0.5) / 200_000)
    truth = float(np.mean(now.logpdf(grid) - then.logpdf(grid)))

    def windows(rng):
        for law in (then, now):
            yield pa.table({"x": 5000.0 + 1000.0 * law.rvs(8000, random_state=rng)})

    # 5 %: the part of such a ratio that ridge units may miss
    check_truth(drifts(windows, seeds), truth, slack=0.05 * truth)


def test_one_wild_value_does_not_dominate():
    rng = np.random.default_rng(1000)
    tables = [pa.table({"x": rng.normal(size=2000), "y": rng.normal(size=2000)}) for _ in range(2)]
    wild = tables[1]["x"].to_numpy().copy()
    wild[5] = 1e30
    quiet, disturbed = (
        traced([tables[0], w])[1].divergence() for w in (tables[1], tables[1].set_column(0, "x", [wild]))
    )
    assert abs(disturbed.value - quiet.value) < 3.0 * quiet.noise_std


def test_constant_columns_are_harmless():
    rng = np.random.default_rng(1000)

    def window():
        return pa.table({"x": rng.normal(size=1000), "same": [3.0] * 1000, "one": ["v"] * 1000, "yes": [True] * 1000})

    _, est = traced([window() for _ in range(3)])
    found = est.divergence("reverse_kl")
    assert abs(found.value) < 4.0 * found.noise_std
    assert found.noise_std < 0.01

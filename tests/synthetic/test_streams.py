"""Simulated streams: their closed forms agree with their samples."""

import numpy as np
import pytest

from driftline.synthetic import (
    ClaytonStream,
    CompositionStream,
    CorrelationStream,
    GaussianStream,
    MixtureStream,
    RushHourStream,
)

STREAMS = [GaussianStream(dim=3, delta=0.05), CorrelationStream(dim=4, delta=0.08), MixtureStream(dim=3)]
FOREIGN = [ClaytonStream(), CompositionStream(), RushHourStream()]


@pytest.mark.parametrize("stream", STREAMS + FOREIGN, ids=lambda stream: type(stream).__name__)
def test_the_ratio_averages_one_over_current_samples(stream, rng):
    """E_q[p/q] = 1; the tolerance is five standard errors of the mean."""
    ratio = np.exp(stream.log_ratio(stream.sample(5, 40_000, rng), 5))
    assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("stream", STREAMS[:2], ids=lambda stream: type(stream).__name__)
def test_reverse_kl_is_the_mean_of_the_log_ratio(stream, rng):
    values = -stream.log_ratio(stream.sample(5, 40_000, rng), 5)
    assert abs(values.mean() - stream.reverse_kl(5)) < 5.0 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("stream", FOREIGN, ids=lambda stream: type(stream).__name__)
def test_the_inverse_ratio_averages_one_over_the_original(stream, rng):
    """E_p[q/p] = 1: with the test above, a wrong normaliser or density shows on one of the two sides."""
    ratio = np.exp(-stream.log_ratio(stream.sample(0, 40_000, rng), 5))
    assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("stream", FOREIGN, ids=lambda stream: type(stream).__name__)
def test_foreign_streams_drift_ever_further(stream, rng):
    far = [-stream.log_ratio(stream.sample(t, 40_000, rng), t).mean() for t in (0, 5, 20)]
    assert far[0] == 0.0
    assert 0.005 < far[1] < far[2] < 2.0


def test_margins_of_the_clayton_stream_do_not_move(rng):
    rows = ClaytonStream().sample(20, 40_000, rng)
    assert np.abs(rows.mean(0)).max() < 5.0 / np.sqrt(40_000)
    assert np.abs(rows.var(0) - 1.0).max() < 5.0 * np.sqrt(2.0 / 40_000)


def test_dependent_rows_have_the_same_ratio(rng):
    """An AR(1) process leaves the marginals, and so the ratio, as they are."""
    stream = GaussianStream(dim=2, delta=0.05, rho=0.7)
    rows = stream.sample(5, 40_000, rng)
    assert np.corrcoef(rows[1:, 0], rows[:-1, 0])[0, 1] == pytest.approx(0.7, abs=0.02)
    assert np.array_equal(stream.log_ratio(rows, 5), GaussianStream(dim=2, delta=0.05).log_ratio(rows, 5))

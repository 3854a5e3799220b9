"""The benchmark of smooth drift: its streams are what they say, and its numbers are of what they say."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchmarks import smooth
from benchmarks.results import INF
from benchmarks.streams import (
    BananaStream,
    EmbeddingStream,
    HeavyClustersStream,
    LatentClassStream,
    LowRankStream,
    MeansStream,
    MoveStream,
    RingStream,
    RotatedStream,
    ShrinkStream,
    SkewedStream,
    StillStream,
    ThreeWayStream,
)
from driftline.synthetic import GaussianStream

CLOSED = [
    ShrinkStream(),
    ShrinkStream(8, 1000.0, 14),
    MoveStream(),
    RotatedStream(20),
    SkewedStream(),
    StillStream(GaussianStream(dim=2)),
    BananaStream(),
    BananaStream(bend=0.7, last=10, dim=8, pairs=1),
    ThreeWayStream(),
    ThreeWayStream(binary=True),
    LowRankStream(),
    RingStream(),
    EmbeddingStream(dim=24, factors=6),
    MeansStream(),
]
STREAMS = [*CLOSED, LatentClassStream(), HeavyClustersStream()]
ROWS = 40_000


def by_name(stream):
    return type(stream).__name__


@pytest.mark.parametrize("stream", STREAMS, ids=by_name)
def test_ratios_average_one_on_either_side(stream, rng):
    """E_q[p/q] = E_p[q/p] = 1, near the start, where both have a variance; five standard errors."""
    for at, sign in ((1, 1.0), (0, -1.0)):
        ratio = np.exp(sign * stream.log_ratio(stream.sample(at, ROWS, rng), 1))
        assert abs(ratio.mean() - 1.0) <= 5.0 * ratio.std() / math.sqrt(ROWS)


@pytest.mark.parametrize("stream", CLOSED, ids=by_name)
def test_closed_forms_are_means_of_log_ratios(stream, rng):
    for t in (2, getattr(stream, "last", 3)):
        values = -stream.log_ratio(stream.sample(t, ROWS, rng), t)
        assert abs(values.mean() - stream.reverse_kl(t)) <= 5.0 * values.std() / math.sqrt(ROWS)


@pytest.mark.parametrize("stream", [LatentClassStream(), HeavyClustersStream()], ids=by_name)
def test_ratios_hold_at_the_end_too(stream, rng):
    """Where the ratio is of a mixture and has no closed divergence; and tests of moments under both regimes."""
    now, then = stream.sample(20, ROWS, rng), stream.sample(0, ROWS, rng)
    ratio = np.exp(stream.log_ratio(now, 20))
    for column in range(now.shape[1]):
        middle = np.median(now[:, column])
        below = ratio * (now[:, column] <= middle)
        there = then[:, column] <= middle
        error = math.sqrt((below.var() + there.var()) / ROWS)
        assert abs(below.mean() - there.mean()) < 5.0 * error


def test_truths_are_those_of_the_issue():
    assert ShrinkStream().reverse_kl(7) == pytest.approx(1.81, abs=0.01)
    assert ShrinkStream(8, 1000.0, 14).reverse_kl(14) == pytest.approx(6.41, abs=0.01)
    assert MoveStream().reverse_kl(40) == pytest.approx(200.0, abs=0.5)
    assert RotatedStream(40).reverse_kl(8) == pytest.approx(10.22, abs=0.01)
    assert LowRankStream().reverse_kl(10) == pytest.approx(2.0, abs=0.02)
    assert EmbeddingStream().reverse_kl(5) == pytest.approx(0.49, abs=0.01)
    assert ThreeWayStream(top=0.86, last=10, binary=True).reverse_kl(10) == pytest.approx(0.29, abs=0.01)
    assert MeansStream().reverse_kl(4) == 0.0
    assert smooth.truth(LatentClassStream(), 20, 200_000) == pytest.approx(0.56, abs=0.01)
    assert smooth.truth(HeavyClustersStream(), 20, 200_000) == pytest.approx(0.51, abs=0.01)


def test_no_column_of_a_rotated_stream_stands_out(rng):
    """Its margins do not move, and every pair of columns becomes correlated a little, none strongly."""
    rows = RotatedStream(20).sample(8, ROWS, rng)
    correlations = np.corrcoef(rows.T)[np.triu_indices(20, 1)]
    assert np.sqrt((correlations**2).mean()) > 0.1
    assert np.abs(correlations).max() < 0.6


def test_rows_give_the_truth_of_a_closed_form():
    @dataclass(frozen=True)
    class Open:
        """A Gaussian stream that does not know its divergence."""

        stream: GaussianStream

        def sample(self, t, n, rng):
            return self.stream.sample(t, n, rng)

        def log_ratio(self, x, t):
            return self.stream.log_ratio(x, t)

    assert smooth.truth(Open(GaussianStream(dim=2)), 5, 200_000) == pytest.approx(
        GaussianStream(dim=2).reverse_kl(5), rel=0.01
    )


def test_names_of_cases_are_unique_and_foreign_ones_stand_apart():
    names = [case.name for case in [*smooth.CASES, *smooth.FOREIGN]]
    assert len(set(names)) == len(names)
    assert all(case.name.startswith("smooth-") for case in smooth.CASES)
    assert all(case.name.startswith("foreign-") for case in smooth.FOREIGN)


@pytest.fixture
def case():
    stream = GaussianStream(dim=2, delta=0.1)
    return smooth.Case("tiny", stream, 400, "quadratic", times=(1, 3), covered=0.5, off=0.5, errors=5.0)


def measured(case, **options):
    return {(result.what, result.seed): result for result in smooth.run(case, 2, **options)}


def test_a_case_is_measured_by_seed_and_together(case):
    found = measured(case, first_seed=1000)
    whats = {what for what, _ in found}
    assert {seed for _, seed in found} == {1000, 1001, -1}
    assert not any("t=1:" in what for what in whats)  # without replicates there is nothing to see
    assert found["tiny, t=3: (truth - value) / standard error", 1000].bar == (-5.0, 5.0)
    each = [found["tiny, t=3: reverse KL off by", seed].value for seed in (1000, 1001)]
    assert found["tiny, t=3, all seeds: reverse KL off by", -1].value == pytest.approx(np.mean(each))


def test_seeds_do_not_depend_on_each_other(case):
    """A seed shows the same whether it is the first or the second, alone or among replicates."""
    what = "tiny, t=3: log-ratio MAE"
    assert measured(case, first_seed=7)[what, 8].value == measured(case, first_seed=8, replicates=4)[what, 8].value


def test_coverage_is_that_of_the_truth(case):
    what = "tiny, t=3, all seeds: share of intervals that hold the truth"
    right = measured(case, replicates=20)[what, -1]
    assert right.value >= 0.7
    assert right.bar == (0.5, INF)

    @dataclass(frozen=True)
    class Liar(GaussianStream):
        """A stream whose divergence is said to be twice what it is."""

        def reverse_kl(self, t):
            return 2.0 * super().reverse_kl(t)

    wrong = replace(case, stream=Liar(dim=2, delta=0.1))
    assert measured(wrong, replicates=20)[what, -1].value <= 0.3


def test_withheld_intervals_are_counted():
    look = smooth.Look(0.1, 1.0, 0.1, 0.5, INF, 1)
    case = smooth.Case("withheld", StillStream(GaussianStream(dim=2)), 100, covered=0.9)
    found = {r.what.split(": ")[1]: r.value for r in smooth._intervals(case, 5, [look, look._replace(high=1.5)])}
    assert found["share of intervals withheld"] == 0.5


def test_a_doubt_excuses_only_the_seed_that_has_it():
    case = smooth.Case("doubted", ShrinkStream(), 100, times=(7,), off_each=0.03, doubt_will_do=True)
    look = smooth.Look(0.1, 1.0, 0.1, 0.5, 1.5, 0)
    bars = [r.bar for r in smooth._by_seed(case, 7, {0: look, 1: look._replace(doubts=1)}) if "off by" in r.what]
    assert bars == [(-0.03, 0.03), None]


def test_the_first_edition_has_measured_all_that_is_compared_with_it():
    for case in [*smooth.CASES, *smooth.FOREIGN]:
        for t in case.times if case.of_first is not None else ():
            if t > 1:
                assert smooth.first_edition()[f"{case.name}, t={t}, all seeds: log-ratio MAE"] > 0.0

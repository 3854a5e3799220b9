"""Attribution: columns that moved get their contribution, those that did not get none, and the parts add up."""

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, DensityRatio, Training
from driftline.fitting import fit_features
from driftline.inference import Dependence, attribute, attributed, members, own_part, parts_of
from driftline.inference._attribution import shares


def moving(rng, n, t):
    """Four columns: the first shifts to 0.3, the second shrinks to 0.85 at t = 4."""
    x = rng.normal(size=(n, 4))
    x[:, 0] += 0.075 * t
    x[:, 1] *= 1 - 0.0375 * t
    return x


TRUTH = np.array([0.09, 0.5 * (0.85**2 + 0.85**-2) - 1.0, 0.0, 0.0])  # sum of both KLs, per column


@pytest.mark.slow
def test_parts_and_their_intervals():
    found = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        est = ContinualDensityRatio(model="quadratic", random_state=0).fit(moving(rng, 1500, 0))
        for t in range(1, 5):
            est.partial_fit(moving(rng, 1500, t))
        parts = sorted(est.attribution(), key=lambda part: part.column)
        found.append(
            [(p.contribution.value, p.contribution.std_error, p.contribution.low, p.contribution.high) for p in parts]
        )
    values = np.array(found)
    error = values[:, :, 0].std(0) / np.sqrt(len(found))
    assert (np.abs(values[:, :, 0].mean(0) - TRUTH) < 4 * error).all()
    inside = ((values[:, :, 2] <= TRUTH + 1e-12) & (values[:, :, 3] >= TRUTH)).mean(0)
    assert (inside > 0.89).all()  # 95 % less three times 1.8 %
    ratio = np.median(values[:, :, 1], 0) / values[:, :, 0].std(0)
    assert ((ratio > 0.82) & (ratio < 1.2)).all()


def test_columns_by_name_most_first(seed):
    rng = np.random.default_rng(seed)
    names = ["shifted", "shrunk", "still", "quiet"]
    est = ContinualDensityRatio(random_state=0).fit(pd.DataFrame(moving(rng, 4000, 0), columns=names))
    est.partial_fit(pd.DataFrame(moving(rng, 4000, 4), columns=names))
    parts = est.attribution()
    assert {parts[0].column, parts[1].column} == {"shifted", "shrunk"}
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    assert parts[0].contribution.low > 0.0
    assert parts[-1].contribution.low <= 0.0
    both = est.divergence("kl").value + est.divergence("reverse_kl").value
    assert sum(part.contribution.value for part in parts) == pytest.approx(both, rel=0.15)


def test_correlation_belongs_to_both_columns(rng):
    a = rng.normal(size=(6000, 3))
    b = rng.normal(size=(6000, 3))
    b[:, 1] = 0.6 * b[:, 0] + 0.8 * b[:, 1]
    parts = DensityRatio(model="quadratic-full", random_state=0).fit(a, b).attribution()
    assert {parts[0].column, parts[1].column} == {0, 1}
    assert parts[0].share == pytest.approx(0.5, abs=0.05)


def test_every_feature_is_shared_out_completely(rng):
    z = rng.normal(size=(50, 3))
    features = fit_features(z, pairs=np.array([[0, 2]]), weight=rng.random((3, 4)), bias=np.zeros(4))
    np.testing.assert_allclose(shares(features).sum(0), np.ones(features.size))


@pytest.mark.networks
def test_models_without_parts_say_so(rng):
    net = DensityRatio(model="mlp", hidden=(4,), training=Training(epochs=1), random_state=0)
    net.fit(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)))
    with pytest.raises(ValueError, match="cannot be attributed to columns: this model has no such parts"):
        net.attribution()


def test_there_are_no_parts_before_the_first_step(rng):
    with pytest.raises(ValueError, match="no step has been taken yet"):
        ContinualDensityRatio().fit(rng.normal(size=(200, 2))).attribution()


def test_features_that_joined_later_have_their_part(seed):
    """Two columns move, then become correlated: the product joins late, centred on another window than the original."""
    rng = np.random.default_rng(seed)

    def window(t):
        x, rho = rng.normal(size=(6000, 3)), 0.1 * max(0, t - 3)
        x[:, 1] = rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 1]
        x[:, :2] += 0.2 * min(t, 3)
        return x

    est = ContinualDensityRatio(random_state=0).fit(window(0))
    for t in range(1, 9):
        est.partial_fit(window(t))
    assert est._state.tracks["original"].current.psi.features.pairs.shape[0] > 0
    inverse = np.linalg.inv([[1, 0.5], [0.5, 1]])
    shift = np.full(2, 0.6)
    truth = 0.5 * (np.trace(inverse) + 2 - 4 + shift @ inverse @ shift + shift @ shift)  # sum of both KLs
    assert sum(part.contribution.value for part in est.attribution()) == pytest.approx(truth, rel=0.1)


def test_groups_are_sums_with_their_own_errors():
    rng = np.random.default_rng(0)
    est = ContinualDensityRatio(random_state=0).fit(rng.normal(0.0, 1.0, (4000, 4)))
    est.partial_fit(rng.normal([0.3, 0.3, 0.0, 0.0], 1.0, (4000, 4)))
    alone = {part.column: part.contribution for part in est.attribution()}
    parts = {part.column: part for part in est.attribution(groups={"moved": [0, 1], "rest": [2, 3]})}
    assert parts["moved"].contribution.value == pytest.approx(alone[0].value + alone[1].value)
    apart = np.hypot(alone[0].std_error, alone[1].std_error)  # nearly independent columns
    assert parts["moved"].contribution.std_error == pytest.approx(apart, rel=0.3)
    assert parts["moved"].share > 0.9
    with pytest.raises(ValueError, match="unknown column 7"):
        est.attribution(groups={"moved": [7]})


def test_the_same_rows_twice_have_intervals_of_their_noise():
    """There is almost no slope then, which must not stretch the law without bound."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(500, 2)), rng.random(500) < 0.3])
    found = DensityRatio(random_state=0).fit(rows, rows[rng.permutation(500)]).attribution()
    assert all(0.0 <= part.contribution.high < 0.05 for part in found)


def test_parts_that_are_kept_by_column_give_the_contributions_of_columns_and_groups(rng):
    est = ContinualDensityRatio(model="quadratic-full", random_state=0).fit(moving(rng, 1500, 0))
    for t in (2, 4):
        est.partial_fit(moving(rng, 1500, t))
    now = est._state.tracks["original"].current
    given = now.psi.coef, now.uncertainty, now.own_design(), now.on_window(), Dependence()
    parts = parts_of(now.psi.features, *given[:2], own_part(*given))
    assert {part.shape for part in parts} == {(4,), (4, 4)}
    for groups in (None, members({"both": [0, 1], "most": [1, 2, 3]}, range(4))):
        wanted = attribute(now.psi.features, *given, 0.95, groups)
        found = attributed(parts, now.uncertainty.slack, 0.95, groups)
        assert found.values == pytest.approx(wanted.values, rel=1e-12)
        assert list(found.estimates) == list(wanted.estimates)
        for i, estimate in wanted.estimates.items():
            ends = found.estimates[i].low, found.estimates[i].high, found.estimates[i].std_error
            assert ends == pytest.approx((estimate.low, estimate.high, estimate.std_error), rel=1e-9)

"""The estimators: scikit-learn's conventions, clear errors, and methods that do what they say."""

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from driftline import ContinualDensityRatio, DensityRatio, Training, UntrustedEstimateWarning

BOTH = [DensityRatio, ContinualDensityRatio]


def two(rng, n=400, shift=0.4, d=2):
    return rng.normal(size=(n, d)), rng.normal(shift, 1, (n, d))


def as_tensor(rows):
    import torch

    return torch.from_numpy(rows)


def fitted(kind, a, b, **params):
    est = kind(random_state=0, **params)
    return est.fit(a, b) if kind is DensityRatio else est.fit(a).partial_fit(b)


@pytest.mark.parametrize("kind", BOTH)
def test_scikit_learn_contract(kind):
    """__init__ only assigns, get_params returns every parameter, a clone is unfitted and equal."""
    names = [p for p in inspect.signature(kind.__init__).parameters if p != "self"]
    est = kind(objective="kliep", model="mlp", hidden=(3,), training=Training(epochs=2), random_state=5)
    assert set(est.get_params()) == set(names)
    assert set(vars(est)) == set(names)
    copy = clone(est)
    assert copy.get_params() == est.get_params()
    assert copy.set_params(ridge=3.0).ridge == 3.0
    assert "kliep" in repr(est)
    kind(objective="nonsense", model="nonsense")  # parameters are checked in fit, not before
    with pytest.raises(NotFittedError):
        est.log_ratio(np.zeros((1, 2)))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "wrap",
    [np.asarray, pytest.param(as_tensor, marks=pytest.mark.networks), pd.DataFrame, lambda x: pl.DataFrame(x)],
    ids=["numpy", "torch", "pandas", "polars"],
)
def test_all_tables_give_the_same_numpy_numbers(kind, wrap, rng):
    a, b = two(rng)
    plain = fitted(kind, a, b).log_ratio(b)
    other = fitted(kind, wrap(a), wrap(b)).log_ratio(wrap(b))
    assert isinstance(other, np.ndarray)
    assert other.dtype == np.float64
    np.testing.assert_array_equal(other, plain)


def test_columns_are_remembered_by_name(rng):
    a, b = two(rng)
    first = pd.DataFrame(a, columns=["age", "income"])
    est = ContinualDensityRatio(random_state=0).fit(first)
    assert list(est.feature_names_in_) == ["age", "income"]
    assert est.n_features_in_ == 2
    with pytest.raises(ValueError, match="window does not have the columns of the original: a different order"):
        est.partial_fit(first[["income", "age"]])
    with pytest.raises(ValueError, match="window has 3 columns, the original has 2"):
        est.partial_fit(rng.normal(size=(50, 3)))
    est.partial_fit(pd.DataFrame(b, columns=["age", "income"]))


def test_fit_resets(rng):
    a, b = two(rng)
    est = ContinualDensityRatio(random_state=0).fit(a).partial_fit(b).add_original(a, name="x")
    est.fit(pd.DataFrame(a, columns=["u", "v"]))
    assert est.t_ == 0
    assert est.originals_ == ["original"]
    assert est.log_ratio(b).tolist() == [0.0] * len(b)  # nothing has moved yet
    est.fit(a)
    assert not hasattr(est, "feature_names_in_")


def test_partial_fit_alone_starts_tracing(rng):
    a, b = two(rng)
    one = ContinualDensityRatio(random_state=0).partial_fit(a).partial_fit(b)
    two_ = ContinualDensityRatio(random_state=0).fit(a).partial_fit(b)
    np.testing.assert_array_equal(one.log_ratio(a), two_.log_ratio(a))
    with pytest.raises(ValueError, match="call fit with the first original"):
        ContinualDensityRatio().partial_fit({"original": a})


@pytest.mark.parametrize("kind", BOTH)
def test_weights_average_one_and_reweight(kind, rng):
    """Backward covariate shift: a line fitted on current with weights approaches the line of the original."""
    x0, x1 = rng.normal(0, 0.7, (5000, 1)), rng.normal(0.8, 0.7, (5000, 1))
    est = fitted(kind, x0, x1)
    weights = est.weights(x1)
    assert weights.mean() == pytest.approx(1.0)
    assert (weights > 0).all()
    curve = lambda x: np.sin(2 * x[:, 0])  # noqa: E731
    target = LinearRegression().fit(x0, curve(x0)).coef_[0]
    plain = LinearRegression().fit(x1, curve(x1)).coef_[0]
    back = LinearRegression().fit(x1, curve(x1), sample_weight=weights).coef_[0]
    assert abs(back - target) < 0.4 * abs(plain - target)


def test_far_away_weights_and_heavy_divergences_warn(rng):
    a, b = rng.normal(size=(3000, 8)), rng.normal(1.0, 0.8, (3000, 8))
    est = DensityRatio(model="quadratic", random_state=0).fit(a, b)
    with pytest.warns(UntrustedEstimateWarning, match=r"weights rest on \d"):
        est.weights(b)
    with pytest.warns(UntrustedEstimateWarning, match="rests on"):
        est.divergence("pearson")
    with pytest.warns(UntrustedEstimateWarning, match="rests on"):
        est.divergence("kl", b)  # given rows need importance weights
    forward = est.divergence("kl")  # from the constant: KL(N(0,1), N(1,0.8)) is 0.839 nats per column
    assert abs(forward.value - 8 * (0.5 * (2 / 0.64 - 1) + np.log(0.8))) < 4 * forward.std_error


BREGMAN = {  # f(r) = r^1.5, D = |mu|^2; E_q[r^a] = exp(a (a - 1) D / 2) for N(0, I) against N(mu, I)
    "of the ratio from 1": (lambda r: r**1.5 - 1 - 1.5 * (r - 1), lambda D: math.expm1(0.375 * D)),
    "of 1 from the ratio": (
        lambda r: 1 - r**1.5 + 1.5 * r**0.5 * (r - 1),
        lambda D: 1 + 0.5 * math.exp(0.375 * D) - 1.5 * math.exp(-0.125 * D),
    ),
}


@pytest.mark.parametrize("which", BREGMAN)
def test_bregman_divergences_of_the_ratio(which, seed):
    """20 replicates: errors in standard errors have mean 0 and variance 1, for the true distance and no other."""
    (kind, truth), errors = BREGMAN[which], {0.36: [], 0.49: []}
    for replicate in range(20):
        rng = np.random.default_rng([seed, replicate])
        first, second, third = (rng.normal(0.15 * t, 1.0, (4000, 4)) for t in range(3))
        est = fitted(ContinualDensityRatio, first, second, model="quadratic").partial_fit(third)
        found = est.divergence(kind)
        for distance, z in errors.items():
            z.append((found.value - truth(distance)) / found.std_error)
    right, wrong = errors.values()
    # 4 standard errors of the mean of 20, and quantiles of chi-square with 20 degrees of freedom at 1e-4 and 1 - 1e-4
    assert abs(np.mean(right)) < 4 / math.sqrt(20)
    assert 4.4 < np.sum(np.square(right)) < 52.4
    assert np.mean(wrong) < -4 / math.sqrt(20)


def test_starting_again_at_a_threshold(seed):
    """The recipe of docs/python.md: restarts where the truth passes 0.5 nats, and never without drift."""
    for shift, expected in ((0.2, [3, 6]), (0.0, [])):
        rng, began = np.random.default_rng(seed), []
        est = ContinualDensityRatio(model="quadratic", random_state=0).fit(rng.normal(0.0, 1.0, (3000, 4)))
        for t in range(1, 8):
            window = rng.normal(shift * t, 1.0, (3000, 4))
            if est.partial_fit(window).divergence("kl").low > 0.5:  # true: 2 (shift t)^2, which is 0.32 and 0.72
                est.fit(window)
                began.append(t)
        assert began == expected


def test_divergences_over_window_or_rows_and_by_own_generator(rng):
    a, b = two(rng, 3000)
    est = fitted(ContinualDensityRatio, a, b)
    log_r = est._state.tracks["original"].current.on_window()  # as it is carried
    plain = est.divergence("reverse_kl")
    assert 0 < -log_r.mean() - plain.value < 3 * plain.noise  # the bias without drift is subtracted
    assert est.divergence("js", b).value == pytest.approx(est.divergence("js").value, rel=0.05)
    own = est.divergence(lambda r: (r - 1) ** 2)
    assert own.value == pytest.approx(est.divergence("pearson").value)
    assert own.std_error == pytest.approx(est.divergence("pearson").std_error, rel=1e-3)
    assert est.divergence("js", level=0.5).high < est.divergence("js", level=0.99).high
    step = est.step_divergence("reverse_kl")
    assert step.value == pytest.approx(est.divergence("reverse_kl").value)  # after one step both are the same
    assert step.std_error == pytest.approx(est.divergence("reverse_kl").std_error, rel=1e-6)


WRONG = {
    "objective": ({"objective": "kliepp"}, "objective='kliepp' is unknown"),
    "model": ({"model": "forest"}, r"model='forest' is unknown: choose one of \['auto'"),
    "normalizer": ({"normalizer": "none"}, "normalizer='none' is unknown"),
    "step": ({"step": "sometimes"}, "step='sometimes' is unknown"),
    "penalty": ({"penalty": -1.0}, "penalty=-1.0 must be a number of at least 0"),
    "penalty word": ({"penalty": "large"}, "penalty='large' is unknown"),
    "ridge": ({"ridge": -1.0}, "ridge=-1.0 must be a number of at least 0"),
    "enough": ({"enough": 5.0}, "need 0 < enough < too_much"),
    "max_hold": ({"max_hold": 0}, "max_hold=0 must be at least 1"),
    "device": ({"device": "tpu9"}, "device='tpu9' is unknown"),
    "validation": ({"training": Training(validation=1.5)}, "validation=1.5 must lie between 0 and 1"),
    "ridge word": ({"ridge": None}, "ridge=None must be a number"),
    "seed": ({"random_state": "x"}, "random_state='x' must be None or an integer"),
    "hidden": ({"hidden": 64}, "hidden=64 must be widths"),
    "no width": ({"hidden": (0,)}, r"hidden=\(0,\) must be widths"),
    "device number": ({"device": "cuda:"}, "device='cuda:' is unknown"),
    "network device": ({"model": "mlp", "device": "tpu9"}, "device='tpu9' is unknown"),
    "epochs": ({"training": Training(epochs=0)}, "epochs=0 must be positive"),
}
WRONG_FOR_NETWORKS = {
    "cuda": ({"model": "mlp", "device": "cuda:7"}, "device='cuda:7'"),
    "vector objective": ({"objective": lambda a, b: a}, r"must return a scalar tensor, got shape \(6,\)"),
    "float objective": ({"objective": lambda a, b: 1.0}, "must return a scalar tensor, got float"),
    "one-sided objective": (
        {"objective": lambda a, b: a.mean()},
        "does not depend on the log-ratios of the denominator",
    ),
    "nan objective": ({"objective": lambda a, b: (a.mean() + b.mean()) * float("nan")}, "objective is nan"),
}


@pytest.mark.parametrize(
    "name", [*WRONG, *(pytest.param(name, marks=pytest.mark.networks) for name in WRONG_FOR_NETWORKS)]
)
def test_wrong_parameters_are_named(name, rng):
    params, message = (WRONG | WRONG_FOR_NETWORKS)[name]
    with pytest.raises(ValueError, match=message):
        ContinualDensityRatio(**params).fit(rng.normal(size=(50, 2)))


@pytest.mark.networks
def test_a_network_is_not_a_factory(rng):
    from torch import nn

    with pytest.raises(ValueError, match="pass a factory"):
        ContinualDensityRatio(model=nn.Linear(2, 1)).fit(rng.normal(size=(50, 2)))


def test_names_of_originals_are_checked(rng):
    a, b = two(rng)
    est = fitted(ContinualDensityRatio, a, b)
    with pytest.raises(ValueError, match=r"original 'x' is unknown: choose one of \['original'\]"):
        est.log_ratio(a, original="x")
    with pytest.raises(ValueError, match="'original' is traced already"):
        est.add_original(a, name="original")
    with pytest.raises(ValueError, match="must be a non-empty string"):
        est.add_original(a, name="")
    est.add_original(a, name="b")
    for call in (lambda: est.log_ratio(a), lambda: est.divergence(), lambda: est.weights(a)):
        with pytest.raises(ValueError, match="several originals are traced, name one"):
            call()
    with pytest.raises(ValueError, match="several originals are traced, pass"):
        est.partial_fit(a)
    with pytest.raises(ValueError, match=r"unknown original\(s\) \['c'\]: traced are \['b', 'original'\]"):
        est.partial_fit({"c": a})
    with pytest.raises(ValueError, match="no window given"):
        est.partial_fit({})
    with pytest.raises(ValueError, match="no step has been taken yet"):
        est.step_divergence(original="b")


def test_fresh_seeds_differ_and_are_kept(rng, tmp_path):
    a, _ = two(rng)
    one, two_ = ContinualDensityRatio().fit(a), ContinualDensityRatio().fit(a)
    assert one.seed_ != two_.seed_
    one.save(tmp_path / "run")
    assert ContinualDensityRatio.load(tmp_path / "run").seed_ == one.seed_


def test_a_failed_fit_leaves_the_old_one(rng):
    a, b = two(rng)
    static = DensityRatio(random_state=0).fit(a, b)
    before = static.log_ratio(a)
    with pytest.raises(ValueError, match="current has 2 columns, the original has 5"):
        static.fit(rng.normal(size=(50, 5)), b)
    np.testing.assert_array_equal(static.log_ratio(a), before)
    stream = ContinualDensityRatio(random_state=0).fit(a).partial_fit(b)
    with pytest.raises(ValueError, match="NaN"):
        stream.fit(np.full((50, 3), np.nan))
    with pytest.raises(ValueError, match="must be a non-empty string"):
        stream.fit(a, name=3)
    np.testing.assert_array_equal(stream.log_ratio(a), before)


def test_warnings_as_errors_leave_the_state(rng):
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(100, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UntrustedEstimateWarning):
            est.partial_fit(rng.normal(50.0, 1, (100, 2)))
    assert est.t_ == 0


def test_an_outlier_is_named(rng):
    window = rng.normal(size=(500, 3))
    window[7, 1] = 1e4
    with pytest.warns(
        UntrustedEstimateWarning, match="row 7 alone carries .* column 1 lies .* standard deviations away"
    ):
        DensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(500, 3)), window)
    window[7, 1] = 1e12
    with pytest.raises(ValueError, match=r"column 1 holds 1e\+12 in row 7, 1e\+12 standard deviations away"):
        DensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(500, 3)), window)


@pytest.mark.parametrize("kind", [lambda r: 0.0, lambda r: np.zeros((2, 2))])
def test_generators_must_return_one_value_per_row(kind, rng):
    a, b = two(rng)
    with pytest.raises(ValueError, match="the generator returned shape"):
        DensityRatio(random_state=0).fit(a, b).divergence(kind)


@pytest.mark.networks
def test_kl_of_networks_is_not_averaged_over_the_rows_of_the_fit(seed):
    """Without drift, the mean log-ratio over the rows of the original, which it was fitted to, is about 0.1."""
    a, b = np.random.default_rng(seed).standard_normal((2, 1000, 4))
    ratio = DensityRatio(model="mlp", training=Training(epochs=6), random_state=0).fit(a, b)
    assert ratio.divergence("kl").value < 0.03


def test_a_snapshot_goes_on_by_itself():
    rng = np.random.default_rng(0)
    a, b, c = (pd.DataFrame(rng.normal(0.2 * t, 1.0, (300, 2)), columns=["x", "y"]) for t in range(3))
    est = ContinualDensityRatio(model="linear", random_state=1).fit(a).partial_fit(b)
    before, twin = est.to_bytes(), est.snapshot()
    assert (twin.to_bytes(), twin.info_) == (before, est.info_)
    twin.add_original(c, "later").partial_fit({"original": c})
    assert (est.to_bytes(), est.originals_, est.t_) == (before, ["original"], 1)
    turned = est.snapshot().change_features(b.to_numpy()[:, ::-1])
    assert turned.snapshot().partial_fit(c.to_numpy()[:, ::-1], before=c).t_ == 2  # also with two kinds of features
    with pytest.raises(NotFittedError):
        ContinualDensityRatio().snapshot()

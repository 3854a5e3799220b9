"""scikit-learn's own checks of estimators: parameters, clones, messages, inputs of all kinds, pickles."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from driftline import ContinualDensityRatio, DensityRatio
from driftline._inputs import as_rows

SECOND_SAMPLE = "fit or score takes a second sample (m, D), but the check passes labels (n,)"

# check -> why it fails; a check that passes unexpectedly fails the test (xfail_strict in pyproject.toml)
EXPECTED = dict.fromkeys(
    [
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_nan_inf",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
    ],
    SECOND_SAMPLE,
)


class StaticOnOneSample(DensityRatio):
    """DensityRatio with a second sample made from the first: every check expected to fail above must pass here."""

    def fit(self, X, y=None):
        return super().fit(X, 0.5 * as_rows(X, "original"))

    def score(self, X, y=None):
        return super().score(X, 0.5 * as_rows(X, "X"))

    def score_samples(self, X):
        """Return the ratio under a name that the checks know and call."""
        return self.log_ratio(X)


class ContinualAfterAStep(ContinualDensityRatio):
    """ContinualDensityRatio after one step: after fit alone, the ratio is 1 everywhere."""

    def fit(self, X, y=None):
        super().fit(X)
        return self.partial_fit(0.5 * as_rows(X, "original"))

    def score(self, X, y=None):
        return super().score(X, 0.5 * as_rows(X, "X"))

    def score_samples(self, X):
        return self.log_ratio(X)


ESTIMATORS = [
    kind(random_state=0) for kind in (ContinualDensityRatio, ContinualAfterAStep, DensityRatio, StaticOnOneSample)
]


SCORED = ("check_fit_score_takes_y", "check_n_features_in_after_fitting", "check_pipeline_consistency")


def expected(estimator):
    """Return checks that fail, and why; the classes above pass those that their parents fail."""
    scored = dict.fromkeys(SCORED, SECOND_SAMPLE)
    return {DensityRatio: EXPECTED, ContinualDensityRatio: scored}.get(type(estimator), {})


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def test_expected_failures_are_checks_that_exist():
    assert set(EXPECTED) <= {check.func.__name__ for _, check in estimator_checks_generator(DensityRatio())}


def test_labels_are_refused_and_not_ignored(rng):
    with pytest.raises(ValueError, match=r"current must have two dimensions .* got shape \(20,\)"):
        DensityRatio().fit(rng.normal(size=(20, 2)), rng.integers(0, 2, 20))

"""as_features: anything that makes features becomes one function; wrong features raise an error that says why."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA

from driftline.features import as_features

ROWS = np.random.default_rng(0).random((20, 3, 4))


def test_none_flattens_rows():
    found = as_features()(ROWS)
    np.testing.assert_array_equal(found, ROWS.reshape(20, 12))
    np.testing.assert_array_equal(as_features(None)(torch.tensor(ROWS)), found)
    np.testing.assert_array_equal(as_features(None)(pd.DataFrame(found, columns=list("abcdefghijkl"))), found)


def test_transformers_and_functions():
    flat = ROWS.reshape(20, 12)
    pca = PCA(2, random_state=0).fit(flat)
    np.testing.assert_array_equal(as_features(pca)(flat), pca.transform(flat))
    np.testing.assert_array_equal(as_features(pca.transform)(flat), pca.transform(flat))
    found = as_features(lambda x: torch.tensor(x, dtype=torch.float32, requires_grad=True).sum(2))(ROWS)
    np.testing.assert_allclose(found, ROWS.sum(2), rtol=1e-6)
    assert found.dtype == np.float64
    assert as_features(lambda x: [[1, 2]] * len(x))(ROWS.tolist()).shape == (20, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x[:5, 0], "features by <lambda> have 5 rows, X has 20"),
        (lambda x: x, r"features by <lambda> must have two dimensions .* got shape \(20, 3, 4\)"),
        (lambda x: x[:, 0, 0], "must have two dimensions"),
        (lambda x: np.where(x[:, 0] > 0.9, np.nan, x[:, 0]), "holds NaN"),
        (lambda x: x[:, 0] / 0.0, "holds infinite values"),
        (lambda x: x[:, 0, :0], "has no columns"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_features_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        as_features(make)(ROWS)


def test_things_that_do_not_make_features():
    with pytest.raises(TypeError, match="PCA is a class: pass a fitted instance"):
        as_features(PCA)
    with pytest.raises(TypeError, match="'inception' does not make features"):
        as_features("inception")
    with pytest.raises(ValueError, match=r"X must have the shape \(rows, ...\), got \(3,\)"):
        as_features()(np.zeros(3))

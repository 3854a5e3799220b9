"""Bad input raises an error that names the column, shape or number; unusual but valid input is taken as it is."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline import ContinualDensityRatio, DensityRatio, UntrustedEstimateWarning
from driftline._inputs import as_rows

GOOD = np.arange(40.0).reshape(20, 2)


def frames(values):
    return {
        "numpy": values,
        "fortran": np.asfortranarray(values),
        "list": values.tolist(),
        "pandas": pd.DataFrame(values, columns=["a", "b"]),
        "polars": pl.DataFrame({"a": values[:, 0], "b": values[:, 1]}),
        "float32": values.astype(np.float32),
        "float16": values.astype(np.float16),
        "int": values.astype(int),
        "object": values.astype(object),
        "nullable": pd.DataFrame({"a": values[:, 0], "b": values[:, 1].astype(int)}).convert_dtypes(),
    }


@pytest.mark.parametrize("kind", frames(GOOD))
def test_all_kinds_of_table(kind):
    rows = as_rows(frames(GOOD)[kind], "X")
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, GOOD)


@pytest.mark.networks
@pytest.mark.parametrize("kind", ["plain", "bfloat16", "with gradient"])
def test_all_kinds_of_tensor(kind):
    import torch

    tensor = torch.from_numpy(GOOD.copy())
    tensor = {"plain": tensor, "bfloat16": tensor.bfloat16(), "with gradient": tensor.clone().requires_grad_()}[kind]
    rows = as_rows(tensor, "X")
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, GOOD)


def test_many_values_near_the_limit_pass():
    assert as_rows(np.full((20, 2), 9.9e99), "X").shape == (20, 2)


def test_bool_and_read_only():
    assert as_rows(np.ones((12, 2), dtype=bool), "X").sum() == 24
    frozen = GOOD.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(as_rows(frozen, "X", copy=False), frozen)


def test_windows_are_copies():
    buffer = np.random.default_rng(0).normal(size=(50, 2))
    rows = as_rows(buffer, "window")
    buffer[:] = 0
    assert np.abs(rows).sum() > 0


BAD = {
    "nan": (
        np.where(np.arange(40).reshape(20, 2) == 7, np.nan, GOOD),
        r"X: column 1 holds NaN in 1 of 20 rows \(first: row 3\)",
    ),
    "inf": (
        np.where(np.arange(40).reshape(20, 2) == 6, np.inf, GOOD),
        r"X: column 0 holds infinite values in 1 of 20 rows",
    ),
    "huge": (GOOD * 1e120, "X: column 1 holds 3.9e.121, beyond the largest magnitude"),
    "named nan": (pd.DataFrame({"age": [1.0, None] * 10, "b": 1.0}), "X: column 'age' holds NaN in 10 of 20 rows"),
    "text": (
        pd.DataFrame({"age": [1.0] * 20, "city": ["Bath"] * 20}),
        r"X: column 'city' holds text \('Bath'\): encode",
    ),
    "none": (np.full((20, 2), None, dtype=object), "X: column 0 holds NaN in 20 of 20 rows"),
    "flat": (np.zeros(20), r"two dimensions.*got shape \(20,\); use X.reshape\(-1, 1\)"),
    "cube": (np.zeros((20, 2, 2)), r"two dimensions.*got shape \(20, 2, 2\)"),
    "few": (GOOD[:3], "X has 3 rows, at least 10 are needed"),
    "empty": (GOOD[:0], "X has 0 rows, at least 10"),
    "no columns": (np.zeros((20, 0)), "X has no columns"),
    "complex": (GOOD + 1j, "X holds complex128 values"),
    "dates": (np.zeros((20, 2), dtype="datetime64[s]"), "X holds datetime64"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_tables(kind):
    data, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        as_rows(data, "X")


@pytest.mark.networks
def test_tensors_of_complex_numbers_are_refused():
    import torch

    with pytest.raises(ValueError, match="X holds complex64 values"):
        as_rows(torch.zeros(20, 2, dtype=torch.complex64), "X")


def test_sparse_is_refused_with_advice():
    from scipy.sparse import csr_matrix

    with pytest.raises(TypeError, match=r"sparse matrix.*X.toarray\(\)"):
        as_rows(csr_matrix(GOOD), "X")


def test_width_and_names():
    with pytest.raises(ValueError, match="window has 2 columns, the original has 3"):
        as_rows(GOOD, "window", width=3)
    frame = pd.DataFrame(GOOD, columns=["a", "b"])
    with pytest.raises(ValueError, match=r"missing \['c'\], unexpected \['b'\]"):
        as_rows(frame, "window", names=["a", "c"])
    with pytest.raises(ValueError, match="a different order"):
        as_rows(frame, "window", names=["b", "a"])
    assert as_rows(GOOD, "window", names=["b", "a"]).shape == (20, 2)  # nameless arrays are taken by position


@pytest.mark.networks
def test_device():
    from driftline.fitting import resolve_device

    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match="device='abacus' is unknown"):
        resolve_device("abacus")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@settings(deadline=None)
@given(st.lists(st.lists(st.floats(), min_size=2, max_size=2), min_size=10, max_size=15))
def test_any_floats_give_a_clean_array_or_a_clear_error(values):
    array = np.array(values)
    if np.isfinite(array).all() and np.abs(array).max() <= 1e100:
        np.testing.assert_array_equal(as_rows(values, "X"), array)
    else:
        with pytest.raises(ValueError, match=r"X: column [01] holds"):
            as_rows(values, "X")


def stream(rng, n=400):
    """Return columns as people have them: normal, constant, one-hot of three, heavy-tailed, integer, around 1e9."""
    large = 1e9 + 1e3 * rng.normal(size=n)
    hot = np.eye(3)[rng.integers(0, 3, n)]
    return np.column_stack([rng.normal(size=n), np.full(n, 7.0), hot, rng.standard_t(2, n), rng.poisson(3, n), large])


@pytest.mark.parametrize("model", ["auto", "quadratic", "linear", "quadratic-full"])
def test_awkward_columns_are_handled(model, rng):
    est = ContinualDensityRatio(model=model, random_state=0).fit(stream(rng))
    for _ in range(3):
        est.partial_fit(stream(rng))
    log_r = est.log_ratio(stream(rng))
    assert np.isfinite(log_r).all()
    assert abs(est.divergence("reverse_kl").value) < 0.5  # no drift: a few parameters per hundred rows
    est.log_ratio(np.full((1, 8), 1e50))  # far outside: a number, not a crash


def test_a_constant_that_moves_is_named(rng):
    est = DensityRatio(model="quadratic", random_state=0)
    moved = stream(rng)
    moved[:, 1] += 1.0
    with pytest.warns(UntrustedEstimateWarning, match=r"column\(s\) 1 were constant in the original"):
        est.fit(stream(rng), moved)


def test_scoring_no_rows_gives_no_numbers(rng):
    est = DensityRatio(model="quadratic", random_state=0).fit(stream(rng), stream(rng))
    assert est.log_ratio(np.zeros((0, 8))).shape == (0,)

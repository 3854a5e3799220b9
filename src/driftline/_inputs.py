"""Input checks: turn arrays, tensors and data frames into double-precision arrays, or raise a clear error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "MIN_ROWS",
    "Floats",
    "as_rows",
    "check_numbers",
    "column_names",
    "column_numbers",
    "columns_differ",
    "resolve_seed",
]

Floats = npt.NDArray[np.float64]

MIN_ROWS = 10
_ENCODE = (  # runs as it is, with the frames original and current
    "encode it as numbers first, or let driftline do it: driftline.compare(original, current), Monitor, or, with "
    "driftline[monitor], `from driftline.sources import as_table; from driftline.tables import TableEncoder; "
    "encoder = TableEncoder.fit(as_table(original)); numbers = encoder.transform(as_table(current)).values`"
)
_LARGEST = 1e100  # squares and their sums must stay finite in double precision


def column_names(data: Any) -> list[str] | None:
    """Return the column names of a pandas or polars frame; None for other data, or if names are not strings."""
    columns = getattr(data, "columns", None)
    if columns is None or not hasattr(data, "to_numpy"):
        return None
    names = list(columns)
    return names if names and all(isinstance(n, str) for n in names) else None


def column_numbers(data: Any) -> list[int] | None:
    """Return the column labels of a frame if all of them are integers, as pandas gives them; None for other data."""
    columns = getattr(data, "columns", None)
    if columns is None or not hasattr(data, "to_numpy"):
        return None
    labels = list(columns)
    numbers = labels and all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in labels)
    return [int(n) for n in labels] if numbers else None


def check_numbers(data: Any, wanted: Sequence[int] | None, what: str) -> None:
    """Raise if a frame has integer labels in another order than the original's, which had ``wanted``.

    If the original had none, labels from 0 on stand for the places of the columns.
    """
    present = column_numbers(data)
    if present is None:
        return
    if wanted is None:
        wanted = sorted(present)
        if wanted != list(range(len(present))):
            return
    different = columns_differ(present, wanted)
    if different:
        raise ValueError(f"{what} does not have the columns of the original: {different}")


def resolve_seed(random_state: Any) -> int:
    """Return the seed itself, or a fresh one for None."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(f"random_state={random_state!r} must be None or an integer, at least 0")
    return int(random_state)


def as_rows(
    data: Any,
    what: str,
    *,
    names: Sequence[str] | None = None,
    width: int | None = None,
    of: str = "the original",
    reader: str | None = None,
    min_rows: int = MIN_ROWS,
    copy: bool = True,
) -> Floats:
    """Return rows as a float64 array (n, D).

    Error messages also contain scikit-learn's own wording, which callers may look for.

    Arguments:
        what: name of the data in errors, such as ``"original"`` or ``"window"``.
        names: column names that the data must have, in this order, if it has names at all.
        width: number of columns that the data must have.
        of: name, in errors, of the data that set this width.
        reader: class name of the estimator that was fitted with this width.
        min_rows: smallest number of rows accepted.
        copy: whether to copy the data. Windows are kept for the next step, and the caller may overwrite its buffer;
            rows that are only scored need no copy.
    """
    present = column_names(data)
    _check_names(present, names, what)
    values = _numbers(data, what, present, copy)
    if values.ndim != 2:
        message = f"{what} must have two dimensions (rows, columns), got shape {tuple(values.shape)}"
        if values.ndim == 1:
            advice = "use X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row"
            raise ValueError(f"{message}; {advice}. Reshape your data.")
        raise ValueError(message)
    rows, columns = values.shape
    if columns == 0:
        shape = f"0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required."
        raise ValueError(f"{what} has no columns: {shape}")
    if width is not None and columns != width:
        message = f"{what} has {columns} columns, {of} has {width}"
        if reader is not None:
            message += f": X has {columns} features, but {reader} is expecting {width} features as input"
        raise ValueError(message)
    if rows < min_rows:
        raise ValueError(f"{what} has {rows} rows, at least {min_rows} are needed (n_samples={rows})")
    label = (lambda j: repr(present[j])) if present else str
    _check_finite(values, what, label)
    return values


def _check_names(present: list[str] | None, wanted: Sequence[str] | None, what: str) -> None:
    different = columns_differ(present, wanted)
    if different:
        raise ValueError(f"{what} does not have the columns of the original: {different}")


def columns_differ(present: Sequence[str | int] | None, wanted: Sequence[str | int] | None) -> str:
    """Describe how named columns differ from those wanted; empty if they do not.

    >>> columns_differ(["a", "c"], ["a", "b"])
    "missing ['b'], unexpected ['c']"
    """
    if present is None or wanted is None or list(present) == list(wanted):
        return ""
    missing = [n for n in wanted if n not in present]
    extra = [n for n in present if n not in set(wanted)]
    parts = []
    if missing:
        parts.append(f"missing {missing[:5]}")
    if extra:
        parts.append(f"unexpected {extra[:5]}")
    if not parts:
        parts.append(f"a different order: {list(present)[:5]} instead of {list(wanted)[:5]}")
    return ", ".join(parts)


def _numbers(data: Any, what: str, names: list[str] | None, copy: bool) -> Floats:
    if hasattr(data, "detach"):  # a tensor, on any device
        data = data.detach().cpu().resolve_conj().numpy() if data.dtype.is_complex else _array_of(data)
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise TypeError(f"{what} is a sparse matrix: pass a dense one, for example {what}.toarray()")
    if np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    array = data.to_numpy() if hasattr(data, "to_numpy") else np.asarray(data)
    if array.dtype.kind == "c":
        raise ValueError(f"{what} holds {array.dtype} values, real ones are needed: Complex data not supported")
    if array.dtype.kind not in "biuf":
        if array.dtype.kind not in "OUS" or array.ndim != 2:
            raise ValueError(f"{what} holds {array.dtype} values, numbers are needed")
        array = _per_column(array, what, names)
    if copy:
        return np.array(array, dtype=np.float64, order="C")
    return np.ascontiguousarray(array, dtype=np.float64)


def _array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor as an array; types that NumPy lacks (bfloat16) become double precision."""
    tensor = tensor.detach().cpu()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        return np.asarray(tensor.double().numpy())


def _per_column(array: np.ndarray[Any, Any], what: str, names: list[str] | None) -> np.ndarray[Any, Any]:
    """Convert a mixed frame, which arrives as objects, column by column, so that an error can name the bad one."""
    out = np.empty(array.shape, dtype=np.float64)
    for j in range(array.shape[1]):
        label = repr(names[j]) if names else str(j)
        column = array[:, j]
        text = next((v for v in column if isinstance(v, str | bytes)), None)
        if text is not None:
            raise ValueError(f"{what}: column {label} holds text ({text!r}): {_ENCODE}")
        try:
            out[:, j] = [np.nan if v is None or type(v).__name__ == "NAType" else float(v) for v in column]
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError  # a subclass may take other arguments
            raise kind(f"{what}: column {label} cannot be read as numbers ({error}): {_ENCODE}") from None
    return out


def _check_finite(values: Floats, what: str, label: Any) -> None:
    # one pass is enough in the usual case: the sum of squares is nan or infinite if a value is, or a square overflows
    flat = values.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if values.size == 0 or float(flat @ flat) <= _LARGEST**2:
            return
    for kind, bad in (("NaN", np.isnan(values)), ("infinite values", np.isinf(values))):
        if bad.any():
            j = int(np.flatnonzero(bad.any(0))[0])
            first = int(np.flatnonzero(bad[:, j])[0])
            raise ValueError(
                f"{what}: column {label(j)} holds {kind} in {int(bad[:, j].sum())} of {values.shape[0]} rows "
                f"(first: row {first}); {int(bad.any(0).sum())} column(s) affected"
            )
    largest = np.abs(values).max(0)
    j = int(largest.argmax())
    if float(largest[j]) <= _LARGEST:  # many large values, none too large
        return
    raise ValueError(
        f"{what}: column {label(j)} holds {float(largest[j]):.3g}, beyond the largest magnitude "
        f"{_LARGEST:g} that can be squared safely: rescale it"
    )

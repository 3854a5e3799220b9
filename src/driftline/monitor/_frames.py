"""Records as a frame: one row for each window and original, flat, for pandas, polars or Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from driftline._errors import Option, OptionError
from driftline._wording import moment
from driftline.inference import Estimate
from driftline.monitor._records import Record

__all__ = ["frame_of"]

_BACKENDS = ("pandas", "polars", "pyarrow")


def frame_of(records: Sequence[Record], backend: str | None = None) -> Any:
    """Return Records as a frame of ``backend``: the first of pandas, polars and pyarrow that is installed if None."""
    if backend is not None and backend not in _BACKENDS:
        known = ", ".join(_BACKENDS)
        raise OptionError("{option} is unknown: choose {known}", option=Option("backend", backend), known=known)
    chosen = backend or next(name for name in _BACKENDS if find_spec(name) is not None)
    table = _table(records)
    if chosen == "pandas":
        return table.to_pandas()
    if chosen == "polars":
        import polars  # not at the top: it need not be there

        return polars.from_arrow(table)
    return table


def _table(records: Sequence[Record]) -> pa.Table:
    drifts, tops = [r.drift for r in records], [r.columns[0] if r.columns else None for r in records]
    others = list(dict.fromkeys(kind for r in records for kind in list(r.divergences)[1:]))
    whole, real, text, time = pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "window": ([r.window for r in records], whole),
        "original": ([r.original for r in records], text),
        "status": ([str(r.status) for r in records], text),
        "rows": ([r.rows for r in records], whole),
        "first_row": ([r.first_row for r in records], whole),
        "start": ([moment(r.start) for r in records], time),
        "end": ([moment(r.end) for r in records], time),
        "drift": ([_value(e) for e in drifts], real),
        "std_error": ([None if e is None else e.std_error for e in drifts], real),
        "low": ([None if e is None else e.low for e in drifts], real),
        "high": ([None if e is None else e.high for e in drifts], real),
        "floor": ([None if e is None else e.floor for e in drifts], real),
        **{kind: ([_value(r.divergences.get(kind)) for r in records], real) for kind in others},
        "step": ([_value(r.step) for r in records], real),
        "signal": ([str(r.signal) for r in records], text),
        "causes": ([", ".join(r.causes) for r in records], text),
        "reason": ([r.reason for r in records], text),
        "warning_limit": ([r.warning_limit for r in records], real),
        "alarm_limit": ([r.alarm_limit for r in records], real),
        "step_limit": ([r.step_limit for r in records], real),
        "moved_most": ([None if m is None else m.column for m in tops], text),
        "moved_by": ([None if m is None else m.drift.value for m in tops], real),
        "moved": ([", ".join(m.column for m in r.columns) for r in records], text),
        "pairs": (["; ".join(" with ".join(m.columns) for m in r.pairs) for r in records], text),
        "unexplained": ([r.unexplained for r in records], real),
        "effective_sample_size": ([r.effective_sample_size for r in records], real),
        "doubt_codes": ([", ".join(doubt.code for doubt in r.doubts) for r in records], text),
        "doubts": (["; ".join(map(str, r.doubts)) for r in records], text),
        "notes": (["; ".join(r.notes) for r in records], text),
        "late_rows": ([r.late_rows for r in records], whole),
        "seconds": ([r.seconds for r in records], real),
    }
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value

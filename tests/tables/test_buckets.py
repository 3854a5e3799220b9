"""Columns of many categories: more values where rows allow, buckets and a map of values for the others."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.tables import TableEncoder, TableError
from driftline.tables._buckets import hashed, is_map, marked, marks

N = 3000
OLD, NEW = ([f"{kind}{i}" for i in range(150)] for kind in "ab")


def drawn(rng, labels, p=None):
    return pa.table({"v": rng.choice(labels, N, p=p), "y": rng.normal(size=N)})


def test_hashes_are_the_same_in_every_process():
    code = "from driftline.tables._buckets import hashed; print(hashed(['teal', 'mauve'])[1])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) == hashed(["mauve"])[0]


def test_a_map_marks_about_half_of_its_cells():
    for count in (33, 100, 1000, 5000):
        then, others = ({f"{kind}{i}": 1 for i in range(count)} for kind in "ab")
        drawn_map = marks(then)
        assert is_map(drawn_map)
        assert marked(hashed(then), drawn_map).all()
        assert 0.25 < marked(hashed(others), drawn_map).mean() < 0.75
    assert marks({"few": 1}) == ""
    assert not any(is_map(bad) for bad in ("abc", "zz", "ab cd ef", 7))


def test_values_without_a_frequent_one_are_watched(rng):
    encoder = TableEncoder.fit(drawn(rng, OLD))
    column = encoder.columns[0]
    assert (column.values, column.buckets) == ((), 32)
    assert "a1" not in str(encoder.to_dict())
    restored = TableEncoder.from_dict(encoder.to_dict())
    quiet, moved = restored.transform(drawn(rng, OLD)), restored.transform(drawn(rng, NEW))
    assert (quiet.notes, quiet.evidence) == ((), ())
    assert [e.column for e in moved.evidence] == ["v"]
    assert "new values, up to " in moved.evidence[0].event


def test_new_values_among_many_raise_the_alarm():
    rng = np.random.default_rng(7)
    with Monitor(window=N, model="linear") as monitor:
        _, quiet, moved = monitor.watch([drawn(rng, OLD), drawn(rng, OLD), drawn(rng, NEW)])
    assert (quiet.signal, moved.signal) == ("normal", "alarm")
    assert "share_moved" in moved.causes


def test_a_long_tail_has_new_values_all_the_time():
    rng = np.random.default_rng(7)
    weights = 1.0 / np.arange(1, 2001)
    labels, p = [f"z{i}" for i in range(2000)], weights / weights.sum()
    encoder = TableEncoder.fit(drawn(rng, labels, p), categorical=["v"])
    assert encoder.columns[0].unseen > 0.05
    for _ in range(20):
        later = encoder.transform(drawn(rng, labels, p))
        assert (later.notes, later.evidence) == ((), ())


def test_too_few_rows_for_buckets_are_left_out_by_name():
    few = pa.table({"v": [f"v{i}" for i in range(18)] * 5, "y": [0.5, 1.5, 1.0] * 30})
    assert TableEncoder.fit(few).skipped == {
        "v": "categories of which none is frequent, 18 different values in 90 rows"
    }
    assert TableEncoder.fit(few, categorical=["v"]).skipped == {}


def test_damaged_buckets_are_refused(rng):
    whole = TableEncoder.fit(drawn(rng, OLD)).to_dict()
    for part, value in (("buckets", 3), ("buckets", 2**40), ("marks", "xyz"), ("unseen", 2.0), ("missing", "a")):
        columns = [{**whole["columns"][0], part: value}, whole["columns"][1]]
        with pytest.raises(TableError):
            TableEncoder.from_dict({**whole, "columns": columns})

"""The proof that no row is at rest: it accounts for what is there, whatever the settings say, or it is none."""

import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import polars as pl
import pytest

from driftline import StateFileError
from driftline.files import pack, unpack
from driftline.monitor import Monitor, TrackerError, as_json, inspect
from driftline.monitor._tracker import Tracker
from driftline.recursion import FORMAT, VERSION
from tests.deaths import frame
from tests.monitor.test_foreign import rewritten

HOURS = np.datetime64("2026-01-01", "us") + np.arange(48) * np.timedelta64(1, "h")


def table(rng, rows):
    heap = np.where(rng.random(rows) < 0.3, 0.0, rng.gamma(2.0, 1.0, rows))
    return frame(rng, rows).with_columns(heap=pl.Series(heap), ts=pl.Series(rng.choice(HOURS, rows)))


def made(path, keep, model="quadratic"):
    rng = np.random.default_rng(0)
    with Monitor(path, window=400, model=model, keep=keep, datetime=["hour"]) as monitor:
        list(monitor.watch(table(rng, 400) for _ in range(3)))
        monitor.add_original("later", table(rng, 500))
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A tracker file that holds no row."""
    return made(tmp_path_factory.mktemp("good") / "run", "sums")


def changed(good, path, *, run=None, progress=None, record=None, state=None):
    """Write the file with its parts changed, by functions, and right digests; return what the proof says."""
    with Tracker(good, readonly=True) as tracker:
        content, parts = tracker.read(), tracker._parts()
    described, moved = json.loads(parts["run"]), json.loads(parts["progress"])
    lines, data = [each.to_dict() for each in content.records], content.state
    for part, change in ((described, run), (moved, progress), (lines[-1], record)):
        if change is not None:
            change(part)
    if state is not None:
        arrays, header = unpack(data, FORMAT, VERSION, "state")
        arrays = dict(arrays)
        state(arrays, header)
        data = pack(arrays, header)
    rewritten(good, path, json.dumps(described).encode(), moved, [json.dumps(line) for line in lines], data)
    return inspect(path).proof.problems


def test_a_file_without_rows_is_accounted_for_to_the_last_byte(good):
    found = inspect(good)
    assert found.proof.problems == ()
    assert found.proof.sentence.startswith("no row at rest: all ")
    assert sum(holding.bytes for holding in found.proof.holdings) == found.bytes
    assert found.held == ()
    shown = as_json(found)
    assert shown["no_row_at_rest"] is True
    assert shown["settings"]["keep"] == "sums"


@pytest.mark.parametrize("model", ["quadratic", "auto", pytest.param("mlp", marks=pytest.mark.networks)])
def test_rows_are_named_whatever_the_settings_say(model, good, tmp_path):
    path = made(tmp_path / "rows", "rows", model)
    problems = inspect(path).proof.problems
    assert "'tracks.0.anchor.window' holds 400 rows of a window, for 'original'" in problems
    assert "'tracks.1.anchor.window' holds 500 rows of a window, for 'later'" in problems
    assert inspect(path).proof.sentence == ""
    if model == "quadratic":
        assert any("has an entry for each of 400 rows" in line for line in problems)
        lies = changed(path, tmp_path / "lies", run=lambda run: run["settings"].update(keep="sums"))
        assert lies == problems
    if model == "mlp":
        assert any("weights of a network" in line for line in problems)


def _histogram(part, value):
    return lambda progress: progress["now"]["amount"].update({part: value})


def _cells(progress, part):
    """Return the first cells of the original that have something there."""
    return next(cells for cells in progress["originals"][0]["ledger"]["columns"] if cells[part])


def _emptied(progress):
    cells = _cells(progress, "atoms")
    cells["counts"][cells["heaps"][0]] = 3


VALUE = 0.12345678901234567
CHANGES = {
    "an unknown part of the run": ({"run": lambda run: run.update(rows=[VALUE])}, "'rows', which is unknown"),
    "a time": ({"run": lambda run: run.update(created=str([VALUE] * 9))}, "a time that is none"),
    "an unknown histogram": ({"progress": lambda p: p["now"].update(x=p["now"]["amount"])}, "which is not watched"),
    "edges": (
        {"progress": lambda p: p["now"]["amount"]["edges"].__setitem__(0, -VALUE)},
        "not in the bins of its column",
    ),
    "a part": ({"progress": _histogram("least", VALUE)}, "not in the bins of its column"),
    "a mean": ({"progress": _histogram("mean", VALUE)}, "more digits than are kept"),
    "shares": (
        {"progress": lambda p: p["now"]["amount"]["shares"].__setitem__(0, VALUE)},
        "more digits than are kept",
    ),
    "then": ({"progress": lambda p: p["originals"][1]["then"]["amount"].update(std=VALUE)}, "original 'later' has a"),
    "constants": ({"progress": lambda p: p["originals"][0]["constant"].update(x=VALUE)}, "'x', which is no column"),
    "an atom": (
        {"progress": lambda p: _cells(p, "atoms")["atoms"].__setitem__(0, VALUE)},
        "a value of 'heap' that few rows share",
    ),
    "a heap of few": (
        {"progress": _emptied},
        "a value of 'heap' that few rows share",
    ),
    "a name": (
        {"progress": lambda p: _cells(p, "names")["names"].__setitem__(0, "Bob")},
        "names values of 'card' that are not among its frequent ones",
    ),
    "a digest of the cursor": ({"progress": lambda p: p["cursor"].update(head=str(VALUE))}, "not a digest"),
    "a diagnostic": ({"record": lambda r: r["diagnostics"].update(row=VALUE)}, "numbers that are unknown"),
    "a column": (
        {"record": lambda r: r.update(pairs=[{"columns": ["Bob", "x"], "dependence": 0, "chance": 0, "cause": ""}])},
        "names columns that are unknown",
    ),
    "a digest": ({"record": lambda r: r.update(digest=str(VALUE))}, "not a digest"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_known_is_no_proof(change, good, tmp_path):
    parts, message = CHANGES[change]
    problems = changed(good, tmp_path / "run", **parts)
    assert len(problems) == 1
    assert message in problems[0]


def _grown(arrays, header):
    arrays["tracks.0.anchor.window"] = np.ones((7, arrays["tracks.0.anchor.window"].shape[1]))


def _extra(arrays, header):
    arrays["tracks.0.rows"] = np.ones((7, 3))


@pytest.mark.parametrize("change", [_grown, _extra])
def test_arrays_that_are_not_described_are_refused(change, good, tmp_path):
    with pytest.raises(StateFileError, match="damaged"):
        changed(good, tmp_path / "run", state=change)


@pytest.mark.parametrize("statement", ["CREATE TABLE rows (x)", "INSERT INTO parts VALUES ('rows', x'00', '')"])
def test_a_table_or_a_part_of_rows_is_refused(statement, good, tmp_path):
    shutil.copy(good, tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run", isolation_level=None)) as database:
        database.execute(statement)
    with pytest.raises(TrackerError, match="rows"):
        inspect(tmp_path / "run")


def test_bytes_beside_the_contents_are_no_proof(good, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(good.read_bytes() + bytes(100))
    assert inspect(path).proof.problems == ("100 bytes after the last page of the file are not its own",)
    shutil.copy(good, path)
    with Monitor(path) as monitor, closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        list(monitor.watch(table(np.random.default_rng(5), 400)))
        (problem,) = inspect(path).proof.problems
        assert "bytes of the log beside it were not looked at" in problem
    assert inspect(path).proof.problems == ()


def test_unused_pages_that_are_not_zero_are_no_proof(good, tmp_path):
    shutil.copy(good, tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run", isolation_level=None)) as database:
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("INSERT INTO records VALUES (99, ?, '')", ("secret" * 20_000,))
        database.execute("DELETE FROM records WHERE place = 99")
    assert inspect(tmp_path / "run").proof.problems == ("unused pages of the file are not zero",)

"""keep="sums": no row at rest, in no file and at no moment; and everything else as with rows."""

import json
import re
import signal
import sqlite3
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from driftline import Monitor, compare
from driftline.alarms import Signal
from driftline.inference import DoubtCode
from driftline.monitor import Settings, Status, inspect, read_run
from driftline.monitor import _settings as settings_module
from driftline.monitor._inspection import _bytes_of
from driftline.monitor._tracker import Tracker
from driftline.recursion import LEVELS, SUMMED
from driftline.sources import Cursor, open_source
from tests.deaths import days_parquet, frame, killed_often, rows_csv, watched


def plain(records):
    return [replace(record, seconds=0.0) for record in records]


class Marks:
    """What would give rows of a source away: their numbers as doubles, single ones in pairs, text, times; encoded too.

    Single precision is looked for in pairs of numbers that are neighbours in a row or in a column: four bytes alone
    occur by chance.
    """

    def __init__(self, source, encoder):
        table = pl.read_csv(source) if source.is_file() else pl.read_parquet(source)
        raw = table.select("amount", "income").to_numpy()
        encoded = encoder.transform(table.to_arrow()).values
        at = [encoder.names.index(name) for name in ("amount", "income")]
        values = [raw, encoded[:, at], *(-part for part in (raw, encoded[:, at]))]
        assert all(len(np.unique(part)) == part.size for part in values)
        self.doubles = np.unique(np.concatenate([part.ravel() for part in values]).view(np.uint64))
        self.swapped = np.sort(self.doubles.byteswap())
        pairs = [p for part in values for p in (part, np.stack([part[:-1, 0], part[1:, 0]], 1))]
        singles = [np.ascontiguousarray(p.astype(np.float32)).view(np.uint64).ravel() for p in pairs]
        self.singles = np.unique(np.concatenate(singles))
        self.texts = {_digits(repr(v)) for v in np.concatenate([part.ravel() for part in values[:2]]).tolist()}
        if "ts" in table.columns:
            times = table["ts"].dt.epoch("us").to_numpy()
            self.times = {str(int(t) * scale) for t in times for scale in (1, 1000)}
        else:
            self.times = set()

    def found(self, content):
        """Say what of these is in some bytes."""
        kinds = set()
        for shift in range(min(8, len(content))):
            numbers = np.frombuffer(content, np.uint64, offset=shift, count=(len(content) - shift) // 8)
            looks = {"double": self.doubles, "swapped": self.swapped, "single": self.singles}
            kinds |= {kind for kind, wanted in looks.items() if occurs(numbers, wanted)}
        written = {_digits(text.decode()) for text in re.findall(rb"[0-9.eE+-]{9,}", content)}
        kinds |= {"text"} if written & self.texts else set()
        whole = {text.decode() for text in re.findall(rb"[0-9]{12,}", content)}
        return kinds | ({"time"} if whole & self.times else set())


def occurs(numbers, wanted):
    """Say whether one of some numbers is among the wanted ones, which are sorted."""
    at = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
    return bool((wanted[at] == numbers).any())


def _digits(number):
    """Return the first ten significant digits of a number that is written down."""
    mantissa = re.split("[eE]", number)[0]
    return re.sub("[^0-9]", "", mantissa).lstrip("0")[:10]


def searched(marks, folder, path):
    """Return what gives rows away in a tracker file, in all that is beside it, and in temporary files."""
    found = set()
    if path.exists():
        found |= set().union(*(marks.found(part) for part in _bytes_of(path)))
    beside = [file for file in folder.glob(f"{path.name}*") if file.is_file()]
    beside += [file for file in (folder / "temporary").glob("**/*") if file.is_file()]
    return found.union(*(marks.found(file.read_bytes()) for file in beside))


def encoder_of(source, settings):
    with Monitor(**settings) as monitor:
        next(monitor.watch(source))
        return monitor.encoder


@pytest.mark.full
@pytest.mark.parametrize("make", [rows_csv, days_parquet])
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_no_row_is_on_the_disk_after_any_kill_and_kills_change_nothing(make, kills, tmp_path):
    source, settings = make(tmp_path, np.random.default_rng(3), 5 * kills)
    settings |= {"keep": "sums"}
    marks, looks = Marks(source, encoder_of(source, settings)), []
    records, state, signals = killed_often(
        tmp_path, source, settings, kills, seed=4, look=lambda path: looks.append(searched(marks, tmp_path, path))
    )
    assert signals == [signal.SIGXFSZ if kill % 3 == 0 else signal.SIGKILL for kill in range(kills)]
    assert looks == [set()] * kills
    assert searched(marks, tmp_path, tmp_path / "killed") == set()
    expected = watched(tmp_path / "whole", source, **settings)
    assert plain(records) == plain(expected)
    assert sum(record.status == Status.MEASURED for record in records) >= 5 * kills - 5
    with Tracker(tmp_path / "whole", readonly=True) as tracker:
        assert tracker.read().state == state
    assert inspect(tmp_path / "killed").proof.problems == ()


@pytest.mark.parametrize("make", [rows_csv, days_parquet])
def test_the_search_finds_rows_where_they_are_kept(make, tmp_path):
    """Also a single number, in any form; and while a writer is at work."""
    source, settings = make(tmp_path, np.random.default_rng(3), 4)
    marks, path = Marks(source, encoder_of(source, settings)), tmp_path / "run"
    assert "double" in _while_watching(marks, path, source, settings)
    value = float((pl.read_csv(source) if source.is_file() else pl.read_parquet(source))["amount"][-1])
    other = float((pl.read_csv(source) if source.is_file() else pl.read_parquet(source))["income"][-1])
    forms = {
        "double": np.float64(value).tobytes(),
        "swapped": np.float64(value).tobytes()[::-1],
        "single": np.array([value, other], np.float32).tobytes(),
        "text": json.dumps({"x": value}).encode(),
    }
    for kind, form in forms.items():
        assert marks.found(bytes(13) + form + bytes(13)) == {kind}
    if marks.times:
        assert marks.found(b'"newest": ' + next(iter(marks.times)).encode() + b"}") == {"time"}


@pytest.mark.parametrize("make", [rows_csv, days_parquet])
def test_no_row_is_on_the_disk_while_a_writer_is_at_work(make, tmp_path):
    source, settings = make(tmp_path, np.random.default_rng(3), 6)
    settings |= {"keep": "sums"}
    marks = Marks(source, encoder_of(source, settings))
    assert _while_watching(marks, tmp_path / "run", source, settings) == set()


def _while_watching(marks, path, source, settings):
    """Return what a search finds after any commit, with a reader that keeps the log from being emptied."""
    found = set()

    def look(record):
        nonlocal found
        found |= searched(marks, path.parent, path)

    with Monitor(path, on_record=look, **settings) as monitor:
        for i, _ in enumerate(monitor.watch(source)):
            if i == 0:
                reader = sqlite3.connect(path)
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM records").fetchone()
        assert path.with_name(f"{path.name}-wal").stat().st_size > 0
        look(None)
        reader.close()
    look(None)
    return found


def stream(rng, windows=7, rows=1500):
    """Return frames with missing values, a heap and categories: the mean of a column moves, then a share."""
    for t in range(windows):
        table = frame(rng, rows, shift=0.4 if t > 2 else 0.0, share=0.6 if t > 4 else 0.3)
        gone = pl.Series(rng.random(rows) < 0.1)
        heap = pl.Series(np.where(rng.random(rows) < 0.3, 0.0, rng.gamma(2.0, 1.0, rows)))
        yield table.with_columns(income=pl.when(gone).then(None).otherwise(table["income"]), heap=heap)


def test_records_are_those_of_rows_up_to_a_part_of_their_errors():
    frames = list(stream(np.random.default_rng(1)))
    kept, summed = (
        watched(None, frames, window=1500, tolerance=0.02, model="quadratic", keep=keep) for keep in ("rows", "sums")
    )
    assert [r.signal for r in kept] == [r.signal for r in summed]
    assert [r.signal == Signal.ALARM for r in summed] == [False] * 3 + [True] * 4
    for a, b in zip(kept[1:], summed[1:], strict=True):
        assert abs(a.drift.value - b.drift.value) < 0.5 * a.drift.std_error
        assert b.drift.std_error == pytest.approx(a.drift.std_error, rel=0.15)
        assert [(m.column, m.cause) for m in a.columns] == [(m.column, m.cause) for m in b.columns]
        assert a.digest == b.digest
    assert {m.column for m in summed[-1].columns} == {"amount", "card"}


def test_values_that_no_row_had_at_first(tmp_path):
    rng = np.random.default_rng(2)
    frames = [frame(rng, 1000).with_columns(k=pl.Series([7.0] * 1000)) for _ in range(3)]
    frames[2] = frames[2].with_columns(k=pl.Series(np.where(rng.random(1000) < 0.1, 8.0, 7.0)))
    kept, summed = (watched(None, frames, window=1000, model="quadratic", keep=keep) for keep in ("rows", "sums"))
    for found in (kept[-1], summed[-1]):
        assert DoubtCode.CONSTANT_MOVED in [doubt.code for doubt in found.doubts]
        assert found.diagnostics["new_values"] == pytest.approx(0.1, abs=0.03)
    a, b = (found[-1].diagnostics["without_new_values"] for found in (kept, summed))
    assert abs(a - b) < 0.01


def test_further_originals_come_from_frames_and_the_current_window_is_gone(tmp_path):
    frames = list(stream(np.random.default_rng(1)))
    with Monitor(tmp_path / "run", window=1500, keep="sums") as monitor:
        list(monitor.watch(frames[:5]))
        with pytest.raises(
            ValueError, match=r"rows of the current window are gone, since keep='sums' keeps none: give"
        ):
            monitor.add_original("now")
        monitor.add_original("break", frames[4])
        first, second = monitor.watch(frames[5:6])
        assert second.drift.value < first.drift.value
        with pytest.raises(ValueError, match=r"original 'few': 100 rows are too few, at least 230 are needed"):
            monitor.add_original("few", frames[0][:100])
        weights = monitor.weights(frames[5], "break")
        assert weights.mean() == pytest.approx(1.0, abs=0.1)
    assert inspect(tmp_path / "run").proof.problems == ()
    with Monitor.open(tmp_path / "run") as again:
        assert len(list(again.watch(frames[6:]))) == 2


def test_a_comparison_keeps_to_it():
    frames = list(stream(np.random.default_rng(1)))
    of_two = compare(frames[0], frames[-1], keep="sums")
    with Monitor(window=1500, keep="sums") as monitor:
        _, record = monitor.watch([frames[0], frames[-1]])
    assert of_two.divergences == record.divergences


def test_windows_with_few_rows_are_left_out():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"100 rows are too few, at least 190 are needed for 9 encoded columns, where"):
        watched(None, [frame(rng, 100)], window=100, keep="sums")
    days = [
        frame(rng, rows).with_columns(ts=pl.Series([f"2026-01-{day:02}T12:00:00"] * rows))
        for day, rows in enumerate((400, 400, 100, 400, 1), 1)
    ]
    records = watched(None, pl.concat(days), time_column="ts", every="1d", keep="sums")
    assert [str(record.status) for record in records] == ["original", "measured", "skipped", "measured"]
    assert records[2].notes[0].startswith("100 rows are too few, at least 190 are needed")


def test_the_model_is_one_that_can_do_with_sums_and_is_said_once(monkeypatch):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 400) for _ in range(3)]
    model = "auto" if "auto" in SUMMED else "quadratic"
    with Monitor(window=400, keep="sums") as monitor:
        records = list(monitor.watch(frames))
        assert monitor.settings.model == model
    said = [note for record in records for note in record.notes if "the model is" in note]
    assert said == ([] if model == "auto" else ["the model is quadratic: auto needs rows, and none are kept"])
    assert not any(record.notes for record in watched(None, frames, window=400, keep="sums", model="quadratic"))
    assert Settings(window=400).model == "auto"
    # the one place where models are listed decides
    monkeypatch.setattr("driftline.recursion.SUMMED", ("auto", *SUMMED))
    assert Settings(window=400, keep="sums").model == "auto"
    assert settings_module.remark_on_model({"keep": "sums"}) == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": "none"}, "keep: 'none' is unknown, choose from rows, sums"),
        ({"keep": "sums", "model": "mlp"}, r"model='mlp' needs rows, and keep='sums' keeps none: choose model='"),
        ({"keep": "sums", "level": 0.99}, r"level=0.99 needs rows.*choose level=0.9 or level=0.95, or keep='rows'"),
    ],
)
def test_settings_that_need_rows_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Settings(window=400, **given)


def test_keep_belongs_to_the_run(tmp_path):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 400) for _ in range(2)]
    for keep, other in (("rows", "sums"), ("sums", "rows")):
        watched(tmp_path / keep, frames[:1], window=400, keep=keep, model="quadratic")
        assert read_run(tmp_path / keep).settings.keep == keep
        with pytest.raises(ValueError, match=f"was begun with keep='{keep}', not '{other}'"):
            Monitor(tmp_path / keep, keep=other)
        with Monitor(tmp_path / keep, level=LEVELS[0]) as monitor:
            assert monitor.settings.keep == keep
            (record,) = monitor.watch(frames[1:])
            assert record.drift.level == LEVELS[0]
    with pytest.raises(ValueError, match=r"level=0.5 needs rows"):
        Monitor(tmp_path / "sums", level=0.5)


def test_a_cursor_holds_no_time_of_a_row(tmp_path):
    source, settings = days_parquet(tmp_path, np.random.default_rng(3), 4)
    watched(tmp_path / "run", source, **settings, keep="sums")
    with Tracker(tmp_path / "run", readonly=True) as tracker:
        cursor = Cursor.from_dict(tracker.read().progress.cursor)
    assert cursor.newest % 3_600_000_000_000 == 0  # of a window's edge and the lateness
    rows = next(iter(open_source(source).batches(cursor))).table
    assert rows["ts"][0].value * 1000 > cursor.newest

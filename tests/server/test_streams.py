"""Streams: only new Records are read, whatever is broken is shown as broken, and nothing is held open."""

import os
import shutil
import time

import pytest

from driftline.monitor import Place, Record, Tracker, TrackerError, read_on
from driftline.server import _streams
from driftline.server._points import span_of
from driftline.server._streams import Runs, Streams, within
from tests.server import made


@pytest.fixture
def parsed(monkeypatch):
    """Windows of the Records that were parsed."""
    found, read = [], Record.from_json.__func__

    def counting(cls, line):
        record = read(cls, line)
        found.append(record.window)
        return record

    monkeypatch.setattr(Record, "from_json", classmethod(counting))
    return found


def by_name(streams):
    return {stream.name: stream for stream in streams.found.values()}


def test_all_that_is_in_a_folder(folder):
    streams = Streams([folder])
    assert len(streams.look()) == 5
    found = by_name(streams)
    assert {name: stream.outcome for name, stream in found.items()} == {
        "<script>alert(1)<script>": "normal",
        "alarm": "alarm",
        "broken": "broken",
        "quiet": "normal",
        "untimed": "normal",
    }
    assert found["broken"].problem == "not a driftline tracker file"
    assert [course.original for course in found["alarm"].courses] == ["original", "later"]
    assert all(set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for key in streams.found)
    assert streams.look() == []


def test_only_new_records_are_read(tmp_path, parsed):
    path = made.write(tmp_path / "a.driftline", made.quiet(50))
    streams = Streams([path])
    streams.look()
    assert sorted(parsed) == list(range(50))
    parsed.clear()
    made.append(path, [made.record(50, 0.4)])
    parsed.clear()  # the writer has read its own
    (key,) = streams.look()
    assert parsed == [50]
    stream = streams.found[key]
    (course,) = stream.courses
    assert (len(course.points), course.rows, course.late_rows, stream.outcome) == (51, 25500, 15, "alarm")
    assert streams.look() == []


def test_runs_of_pages_are_read_on_as_well(tmp_path, parsed):
    path, runs = made.write(tmp_path / "a.driftline", made.quiet(20)), Runs(most=1)
    streams = Streams([path])
    (key,) = streams.look()
    assert len(runs.of(streams.found[key]).records) == 20
    made.append(path, [made.record(20, 0.02)])
    streams.look()
    parsed.clear()
    assert [r.window for r in runs.of(streams.found[key]).records] == list(range(21))
    assert parsed == [20]
    parsed.clear()
    runs.of(streams.found[key])
    assert parsed == []


def test_another_file_in_its_place_is_read_from_its_start(tmp_path):
    path, other = made.write(tmp_path / "a.driftline", made.quiet(20)), tmp_path / "b.driftline"
    reached = read_on(path).place
    assert reached.records == 20
    made.write(other, [made.began(), *(made.record(w, 0.4) for w in range(1, 30))])
    further = read_on(other, reached)
    assert further.begun == Place()
    assert len(further.run.records) == 30
    streams = Streams([path])
    (key,) = streams.look()
    shutil.copy(other, path)
    streams.look()
    assert len(streams.found[key].courses[0].points) == 30
    assert streams.found[key].outcome == "alarm"


def test_reading_on_from_the_end_brings_nothing(tmp_path):
    path = made.write(tmp_path / "a.driftline", made.quiet(5))
    first = read_on(path)
    again = read_on(path, first.place)
    assert again.run.records == ()
    assert again.begun == again.place == first.place


def test_a_record_that_was_altered_is_noticed_when_reading_on(tmp_path):
    path = made.write(tmp_path / "a.driftline", made.quiet(5))
    place = read_on(path).place
    made.append(path, [made.record(5, 0.4)])
    with Tracker(path) as tracker:
        tracker._database.execute("UPDATE records SET record = replace(record, 'alarm', 'normal') WHERE place = 5")
    with pytest.raises(TrackerError, match="Record 5 is not what was written"):
        read_on(path, place)


def test_files_come_break_mend_and_go(folder):
    streams = Streams([folder])
    streams.look()
    good = (folder / "quiet.driftline").read_bytes()
    made.write(folder / "new.driftline", made.quiet(3))
    assert len(streams.look()) == 1
    (folder / "quiet.driftline").write_bytes(good[: len(good) // 2])
    streams.look()
    stream = by_name(streams)["quiet"]
    assert stream.outcome == "broken"
    assert stream.courses == ()  # nothing of it is shown as if it still held
    (folder / "quiet.driftline").write_bytes(good)
    streams.look()
    assert by_name(streams)["quiet"].outcome == "normal"
    (folder / "quiet.driftline").unlink()
    streams.look()
    assert by_name(streams)["quiet"].outcome == "broken"
    assert "no such tracker file" in by_name(streams)["quiet"].problem


def test_what_has_not_been_written_yet_is_awaited(tmp_path):
    (tmp_path / "empty.driftline").touch()
    streams = Streams([tmp_path, tmp_path / "later.driftline"])
    streams.look()
    assert {stream.outcome for stream in streams.found.values()} == {"waiting"}
    made.write(tmp_path / "later.driftline", made.quiet(3))
    streams.look()
    assert by_name(streams)["later"].outcome == "normal"


def test_no_error_of_one_file_is_that_of_others(folder, monkeypatch):
    read = _streams.read_on

    def failing(path, after):
        if "quiet" in os.fspath(path):
            raise RuntimeError("<b>anything</b>")
        return read(path, after)

    monkeypatch.setattr(_streams, "read_on", failing)
    streams = Streams([folder])
    streams.look()
    assert by_name(streams)["quiet"].problem == "it cannot be read (RuntimeError: <b>anything</b>)"
    assert by_name(streams)["alarm"].outcome == "alarm"


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        ([made.began()], "waiting"),
        ([made.began(), made.record(1, 0.01), made.bare(2)], "blind"),
        ([made.began(), made.record(1, 0.01), made.bound(2, signal="normal")], "unsure"),
        ([made.began(), made.record(1, 0.01), made.record(2, 0.4)], "alarm"),
    ],
)
def test_only_what_was_measured_and_can_be_relied_on_is_normal(tmp_path, records, outcome):
    streams = Streams([made.write(tmp_path / "a.driftline", records)])
    (key,) = streams.look()
    assert streams.found[key].outcome == outcome


def test_one_original_that_is_not_decided_keeps_a_stream_from_being_normal(tmp_path):
    records = [made.began(), made.record(1, 0.01), made.began(1, "later"), made.record(2, 0.01)]
    streams = Streams([made.write(tmp_path / "a.driftline", records, ("original", "later"))])
    (key,) = streams.look()
    assert streams.found[key].outcome == "waiting"


def test_names_tell_files_apart(tmp_path):
    for place in ("a/run", "b/run", "other"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        made.write(tmp_path / f"{place}.driftline", made.quiet(2))
    streams = Streams([tmp_path / "a", tmp_path / "b", tmp_path / "other.driftline"])
    streams.look()
    assert sorted(by_name(streams)) == ["a/run", "b/run", "other"]


def test_a_writer_leaves_one_plain_file_though_it_was_watched(tmp_path):
    path = made.write(tmp_path / "a.driftline", made.quiet(5))
    streams, before = Streams([path]), path.read_bytes()
    streams.look()
    assert path.read_bytes() == before
    with Tracker(path) as tracker:
        content = tracker.read()
        tracker.commit(content.description, [made.record(5, 0.02)], content.state, content.progress)
        assert len(streams.look()) == 1
    assert sorted(os.listdir(tmp_path)) == ["a.driftline", "a.driftline.lock"]
    assert streams.look() == [] or len(next(iter(streams.found.values())).courses[0].points) == 6


def test_a_file_that_has_just_changed_is_read_once_more(tmp_path, parsed):
    """Two commits within the precision of the file's clock look alike."""
    path = made.write(tmp_path / "a.driftline", made.quiet(3))
    streams = Streams([path])
    (key,) = streams.look()
    seen, at = streams._seen[os.path.abspath(path)]
    made.append(path, [made.record(3, 0.4)])
    looks, _ = _streams.signature(os.path.abspath(path))
    streams._seen[os.path.abspath(path)] = looks, at - 3.0  # as if nothing had changed since
    assert seen != looks
    os.utime(path, (time.time() - 2.9, time.time() - 2.9))
    looks, _ = _streams.signature(os.path.abspath(path))
    streams._seen[os.path.abspath(path)] = looks, time.time() - 2.5
    assert streams.look() == [key]
    assert len(streams.found[key].courses[0].points) == 4


def test_a_span_of_a_run_has_no_histograms_of_later_windows(tmp_path):
    from dataclasses import replace

    run = replace(read_on(made.write(tmp_path / "a.driftline", made.quiet(9))).run, now={"x": {}})
    assert within(run, span_of(None, None)) is run
    cut = within(run, span_of(None, "2025-01-09"))
    assert [record.window for record in cut.records] == [0, 1, 2, 3]
    assert cut.now == {}
    late = within(run, span_of(None, None, 2))
    assert [record.window for record in late.records] == [7, 8]
    assert late.now == {"x": {}}

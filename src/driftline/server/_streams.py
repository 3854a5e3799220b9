"""Streams: tracker files as a dashboard knows them. Files are compared by times and sizes, and read on if they changed.

Files are opened for a moment, to read: nothing is held open, so that a writer that ends leaves one plain file, and a
killed server leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from driftline._wording import clean
from driftline.monitor import (
    EmptyTrackerError,
    Original,
    Place,
    Record,
    Run,
    Settings,
    Status,
    TrackerError,
    read_on,
    unmeasured,
)
from driftline.report import History, Outcome, Verdict, verdict
from driftline.server._points import Point, Span, overlaps, point_of

__all__ = ["SUFFIX", "WORSE", "Course", "Runs", "Stream", "Streams", "within"]

SUFFIX = ".driftline"
_MOST = 1000  # streams
_RECENT = 12  # measured Records of each original that are kept whole: as far back as trust looks, and a little more
_SETTLED = 2.0  # seconds after which a file that has not changed will not have changed within the clock's precision
WORSE: tuple[str, ...] = (  # from good to bad: only what was measured and can be relied on is good
    Outcome.NORMAL,
    Outcome.WAITING,
    Outcome.UNSURE,
    Outcome.BLIND,
    Outcome.WARNING,
    Outcome.ALARM,
    "broken",
)
_AGAIN = 10.0  # seconds until a file that could not be read is tried again

Signature = tuple[int, ...]


@dataclass(frozen=True)
class Course:
    """One original of a stream: its points, and the verdict as of now.

    Attributes:
        original: name of the original.
        window: window that it joined with.
        kind: divergence that the alarm looks at.
        points: all of its windows.
        recent: last measured Records, and all since.
        verdict: verdict on these, as the report words it.
        rows, late_rows, skipped_rows, skipped: rows in all, rows left out, rows in windows that were not measured, and
            the number of these windows.
    """

    original: str
    window: int
    kind: str
    points: tuple[Point, ...]
    recent: tuple[Record, ...]
    verdict: Verdict
    rows: int
    late_rows: int
    skipped_rows: int
    skipped: int

    @property
    def unmeasured(self) -> int:
        """Number of windows since the last measured one that had rows of which nothing was measured."""
        return len(unmeasured(self.recent))

    @property
    def last(self) -> Record | None:
        """Last Record with an estimate."""
        return next((r for r in reversed(self.recent) if _is_measured(r)), None)


@dataclass(frozen=True)
class Stream:
    """A tracker file as of its last reading.

    Attributes:
        key: name for addresses: letters, digits and hyphens.
        name: name for people.
        path: path of the file.
        version: number of the change that brought this.
        problem: why it cannot be read, in words; None if it can.
        awaited: whether that is only since nothing has been written to it yet.
        committed: time of the last new Record, by the file's clock, in seconds since 1970; nan if it cannot be read.
        courses: originals, in the order they joined.
        settings, source: settings of the run, and what it watches; None if it cannot be read.
        place: how far the file has been read.
    """

    key: str
    name: str
    path: str
    version: int = 0
    problem: str | None = "not read yet"
    awaited: bool = True
    committed: float = float("nan")
    courses: tuple[Course, ...] = ()
    settings: Settings | None = None
    source: str = ""
    place: Place = field(default_factory=Place)

    @property
    def outcome(self) -> str:
        """Worst outcome of its originals, or ``broken``: what was not read is never fine."""
        if self.problem is not None:
            return Outcome.WAITING if self.awaited else "broken"
        return max((course.verdict.outcome for course in self.courses), key=WORSE.index, default=Outcome.WAITING)


def course_of(original: Original, before: Course | None, new: Sequence[Record], run: Run) -> Course:
    """Return an original with what its new Records say."""
    points = (() if before is None else before.points) + tuple(map(point_of, new))
    whole = (*(() if before is None else before.recent), *new)
    measured = [r for r in whole if _is_measured(r)][-_RECENT:]
    recent = (*measured, *_since(whole))
    history = History(original, recent, run.settings, alone=len(run.originals) == 1)
    skipped = [r.rows for r in new if r.status == Status.SKIPPED]
    return Course(
        original=original.name,
        window=original.window,
        kind=history.kind,
        points=points,
        recent=recent,
        verdict=verdict(history),
        rows=sum(r.rows for r in new) + (0 if before is None else before.rows),
        late_rows=sum(r.late_rows for r in new) + (0 if before is None else before.late_rows),
        skipped_rows=sum(skipped) + (0 if before is None else before.skipped_rows),
        skipped=len(skipped) + (0 if before is None else before.skipped),
    )


def _since(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the Records after the last measured one."""
    at = next((i for i in range(len(records), 0, -1) if _is_measured(records[i - 1])), 0)
    return tuple(records[at:])


def _is_measured(record: Record) -> bool:
    return record.status == Status.MEASURED and record.drift is not None


def read_stream(stream: Stream, committed: float, version: int) -> Stream:
    """Return the stream with what its file holds now; only new Records are read."""
    further = read_on(stream.path, stream.place)
    run = further.run
    known = {c.original: c for c in stream.courses} if further.begun == stream.place else {}
    new: dict[str, list[Record]] = {original.name: [] for original in run.originals}
    for record in run.records:
        new.setdefault(record.original, []).append(record)
    courses = tuple(course_of(o, known.get(o.name), new[o.name], run) for o in run.originals)
    return replace(
        stream,
        version=version,
        problem=None,
        awaited=False,
        committed=committed,
        courses=courses,
        settings=run.settings,
        source=run.source,
        place=further.place,
    )


def signature(path: str) -> tuple[Signature, float]:
    """Return what changes with every commit, sizes and times of the file and of its log, and the latest time."""
    found, latest = [], 0.0
    for name in (path, f"{path}-wal"):
        try:
            place = os.stat(name)
        except OSError:
            found += [0, 0, 0]
            continue
        found += [place.st_ino, place.st_size, place.st_mtime_ns]
        if name == path or place.st_size:
            latest = max(latest, place.st_mtime)
    return tuple(found), latest


class Streams:
    """All streams of a dashboard: files that were named, and those in folders, also such as come later.

    One thread calls :meth:`look`, and sets ``ready`` once that and what comes with it is done; any thread may read
    ``found``, which is replaced and never changed.

    Arguments:
        places: tracker files, and folders whose files end in ``.driftline``.
    """

    def __init__(self, places: Iterable[str | os.PathLike[str]]) -> None:
        self.places = [os.path.abspath(place) for place in places]
        self.found: Mapping[str, Stream] = {}
        self.version = 0
        self.ready = False
        self.left_out = 0
        self._seen: dict[str, tuple[Signature, float]] = {}  # of each path: what it looked like when it was read, when

    def look(self) -> list[str]:
        """Read what has changed; return the keys of those streams."""
        streams = self._listed()
        changed, version = [key for key in streams if key not in self.found], self.version + 1
        for key, stream in streams.items():
            now = time.time()
            looks, committed = signature(stream.path)
            if not self._is_due(stream, looks, now):
                continue
            self._seen[stream.path] = looks, now
            read = _read(stream, committed, version)
            if _differs(stream, read):
                streams[key] = read
                changed.append(key)
                self.found = {**self.found, key: read}  # a long first look shows what it has
        if changed or streams.keys() != self.found.keys():
            self.version, self.found = version, streams
        return list(dict.fromkeys(changed))

    def _is_due(self, stream: Stream, looks: Signature, now: float) -> bool:
        """Say whether to read a file: it changed, may have changed since within the clock's precision, or failed."""
        before, at = self._seen.get(stream.path, ((), 0.0))
        if looks != before:
            return True
        latest = max(looks[2], looks[5]) / 1e9
        if stream.problem is not None:
            return now - at > _AGAIN
        return at - latest < _SETTLED and now - at > _SETTLED

    def _listed(self) -> dict[str, Stream]:
        """Return the streams there are, with what is known of them; one that was there stays, and fails to be read."""
        known = {stream.path: stream for stream in self.found.values()}
        paths = list(dict.fromkeys([*_paths(self.places), *known]))
        self.left_out = max(0, len(paths) - _MOST)
        fresh = [path for path in paths[:_MOST] if path not in known]
        names = _names([*known, *fresh]) if fresh else {}
        for path in fresh:
            known[path] = Stream(_key(names[path], path), names[path], path)
        ordered = sorted(known.values(), key=lambda stream: (stream.name, stream.path))
        return {stream.key: stream for stream in ordered}


def _read(stream: Stream, committed: float, version: int) -> Stream:
    """Read a file; whatever is wrong with it, the others are shown, and it is shown as broken."""
    awaited = False
    try:
        return read_stream(stream, committed, version)
    except EmptyTrackerError as error:
        problem, awaited = str(error), True
    except FileNotFoundError as error:
        problem, awaited = str(error), stream.awaited  # one that was there and is gone is not awaited
    except (TrackerError, OSError) as error:
        problem = str(error)
    except Exception as error:  # a file of others may hold anything: fail closed, but go on
        problem = f"it cannot be read ({type(error).__name__}: {error})"
    problem = problem.removeprefix(f"{stream.path}: ").replace(stream.path, Path(stream.path).name)
    return Stream(stream.key, stream.name, stream.path, version, clean(problem)[:500], awaited)


def _differs(one: Stream, other: Stream) -> bool:
    """Say whether there is news: not where a writer has only tidied up its file."""
    return (one.problem, one.place, one.awaited) != (other.problem, other.place, other.awaited)


def _paths(places: Sequence[str]) -> list[str]:
    found = []
    for place in places:
        if os.path.isdir(place):
            with os.scandir(place) as entries:
                found += sorted(entry.path for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file())
        else:
            found.append(place)
    return found


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Name each path by as few of its last parts as tell it from the others."""
    names, depth = {path: _name(path, 1) for path in paths}, 1
    while len(set(names.values())) < len(names) and depth < 20:
        depth += 1
        taken = list(names.values())
        names = {path: _name(path, depth) if taken.count(name) > 1 else name for path, name in names.items()}
    return names


def _name(path: str, depth: int) -> str:
    return "/".join(Path(path).parts[-depth:]).removesuffix(SUFFIX)


def _key(name: str, path: str) -> str:
    """Return a key that is safe in an address, and the same for the same path."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{slug or 'run'}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"


class Runs:
    """Runs with all of their Records, of the streams that were looked at last; these are read on, too."""

    def __init__(self, most: int = 4) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[str, tuple[Place, Run]] = OrderedDict()

    def of(self, stream: Stream) -> Run:
        """Return the run of a stream, at least as new as the stream is."""
        with self._lock:
            place, run = self._kept.get(stream.path, (Place(), None))
        if run is None or place != stream.place:
            further = read_on(stream.path, place)
            before = () if run is None or further.begun != place else run.records
            place, run = further.place, replace(further.run, records=(*before, *further.run.records))
        with self._lock:
            self._kept[stream.path] = place, run
            self._kept.move_to_end(stream.path)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return run


def within(run: Run, span: Span) -> Run:
    """Return the run with the Records of a span; without the histograms of now if these are of a later window."""
    if not span.given:
        return run
    records = [record for record in run.records if overlaps(span, record)]
    if span.last is not None:
        windows = sorted({record.window for record in records})[-span.last :]
        records = [record for record in records if windows and record.window >= windows[0]]
    last = max((r.window for r in run.records if r.status == Status.MEASURED), default=None)
    now = run.now if last in {r.window for r in records} else {}
    return replace(run, records=tuple(records), now=now)

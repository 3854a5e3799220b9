"""Golden tests: the output and files of runs stay as they were, down to names, shapes, words and six digits.

They are the tests of file formats. After a deliberate change, ``python tests/golden/test_golden.py`` rewrites the
expected files; it refuses if the layout of a format changed and its version did not.
"""

import io
import json
import math
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import chdir, closing, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from statistics import NormalDist
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load

from driftline import ContinualDensityRatio, Monitor
from driftline.cli import run

EXPECTED = Path(__file__).with_name("expected")
TOLERANCE = 1e-6  # other processors round the last digits differently
ROWS = 200


# Tables use only Python's own random numbers, rounded, so that all versions of all libraries make the same ones.
def normals(random: Random, rows: int, mean: float = 0.0, spread: float = 1.0) -> list[float]:
    normal = NormalDist()
    return [round(mean + spread * normal.inv_cdf(random.random() or 0.5), 4) for _ in range(rows)]


def choices(random: Random, rows: int, chances: dict[str, float]) -> list[str]:
    return random.choices(list(chances), list(chances.values()), k=rows)


def csv_by_rows(folder: Path) -> list[str]:
    """Write six windows to a CSV file: the mean of one column moves slowly, one colour becomes rarer."""
    random, parts = Random(11), []
    for t in range(6):
        colours = {"red": 0.5, "green": 0.3 + 0.03 * t, "blue": 0.2 - 0.03 * t}
        parts.append(
            pd.DataFrame(
                {
                    "length": normals(random, ROWS, 0.15 * t),
                    "width": normals(random, ROWS, 3.0, 0.5),
                    "colour": choices(random, ROWS, colours),
                }
            )
        )
    pd.concat(parts).to_csv(folder / "rows.csv", index=False)
    return ["rows.csv", "--window", str(ROWS), "--tolerance", "0.05"]


def parquet_by_time(folder: Path) -> list[str]:
    """Write seven days to a folder of Parquet files: rows are out of order, a few too late, and one day has none."""
    random, start = Random(12), datetime(2025, 3, 3)
    (folder / "days").mkdir()
    for d in range(7):
        times = [] if d == 4 else [start + timedelta(days=d, minutes=7 * k) for k in range(ROWS)]
        times = [t + timedelta(minutes=random.choice((0, 0, 0, -40, 90))) for t in times]
        if d in (2, 5):  # three rows from two days before
            times[-3:] = [start + timedelta(days=d - 2, minutes=k) for k in range(3)]
        table = pa.table(
            {
                "at": pa.array(times, pa.timestamp("us")),
                "load": pa.array(normals(random, len(times), 10.0 + 0.5 * (d > 4), 2.0), pa.float64()),
                "price": pa.array([round(math.exp(v), 4) for v in normals(random, len(times))], pa.float64()),
            }
        )
        pq.write_table(table, folder / "days" / f"day-{d}.parquet")
    return ["days", "--time-column", "at", "--every", "1d", "--lateness", "1h", "--flush"]


def mixed_with_break(folder: Path) -> list[str]:
    """Write five windows of numbers, text, truth values, dates, missing values, a counter; a break at the fourth."""
    random, rows, began = Random(13), [], datetime(2025, 1, 1)
    for t in range(5):
        broken = t >= 3
        ages = normals(random, ROWS, 40.0 + 8.0 * broken, 10.0)
        plans = choices(random, ROWS, {"basic": 0.6, "plus": 0.4} | ({"max": 0.5} if broken else {}))
        for k in range(ROWS):
            rows.append(
                {
                    "number": len(rows),
                    "age": None if random.random() < 0.08 else ages[k],
                    "plan": plans[k],
                    "paid": random.random() < (0.4 if broken else 0.7),
                    "since": began + timedelta(hours=random.randrange(2000)),
                    "visits": random.randrange(6),
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), folder / "mixed.parquet")
    return ["mixed.parquet", "--window", str(ROWS), "--datetime", "hour", "--top", "3"]


RUNS = (csv_by_rows, parquet_by_time, mixed_with_break)


def driftline(folder: Path, *words: str) -> str:
    """Run the command in a folder, as its users do, and return its output."""
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed), mock.patch.dict(os.environ, {"COLUMNS": "120"}):
        code = run(list(words))
    assert code == 0, f"driftline {' '.join(words)} ended with {code}"
    return printed.getvalue()


def made(folder: Path) -> dict[str, str]:
    """Make everything that is compared, by file name."""
    found = {}
    for table in RUNS:
        tracker = f"{table.__name__}.driftline"
        printed = driftline(folder, "watch", *table(folder), "--tracker", tracker, "--json")
        found[f"{table.__name__}.json"] = text(records(map(json.loads, printed.splitlines())))
        found[f"{table.__name__}-tracker.json"] = text(tracker_layout(folder / tracker))
    found["encoder.json"] = text(tracker_parts(folder / "mixed_with_break.driftline")["run"]["encoder"])
    found["state.json"] = text(state_layout(traced()))
    driftline(folder, "report", "mixed_with_break.driftline", "--out", "report.html")
    found["report.html"] = steady((folder / "report.html").read_text(encoding="utf-8"))
    found["inspect.txt"] = steady(driftline(folder, "inspect", "mixed_with_break.driftline"))
    found["inspect.json"] = text(inspected(json.loads(driftline(folder, "inspect", "csv_by_rows.driftline", "--json"))))
    return found


def text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def records(found: object) -> list[dict]:
    """Return records without seconds; digests of rows, which depend on last digits, are numbered as they appear."""
    lines, digests = list(found), {}
    for line in lines:
        assert line.pop("seconds") >= 0.0
        assert re.fullmatch("[0-9a-f]{32}|", line["digest"])
        line["digest"] = f"digest {digests.setdefault(line['digest'], len(digests))}"
    return lines


def tracker_parts(path: Path) -> dict[str, dict]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name, content FROM parts WHERE name != 'state'").fetchall()
    return {name: json.loads(content) for name, content in rows}


def tracker_layout(path: Path) -> dict:
    """Describe a tracker file by version, tables and parts, without those that differ between runs of the same data."""
    with closing(sqlite3.connect(path)) as database:
        names = ("application_id", "user_version", "page_size")
        pragmas = {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
        tables = sorted(sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        (state,) = database.execute("SELECT content FROM parts WHERE name = 'state'").fetchone()
    parts = tracker_parts(path)
    for name in ("chain", "state", "run"):
        assert re.fullmatch("[0-9a-f]{32}", parts["progress"].pop(name))
    if isinstance(parts["progress"]["cursor"], dict) and parts["progress"]["cursor"]["head"]:
        parts["progress"]["cursor"]["head"] = "a fingerprint"  # compressed files differ between versions of Arrow
    del parts["run"]["created"]
    version = pragmas["user_version"]
    return {"version": version, "pragmas": pragmas, "tables": tables, "parts": parts, "state": shapes(state)}


def shapes(state: bytes) -> dict[str, str]:
    return {name: f"{value.dtype} {list(value.shape)}" for name, value in sorted(load(state).items())}


def traced() -> ContinualDensityRatio:
    """Return an estimator of two originals after three steps; one original stays behind in the last."""
    random = Random(14)

    def window(t: int) -> np.ndarray:
        columns = [normals(random, ROWS, 0.4 * t), normals(random, ROWS, 0.0, 1.0 + 0.2 * t), normals(random, ROWS)]
        return np.array(columns).T

    estimator = ContinualDensityRatio(random_state=0).fit(window(0), name="first")
    estimator.partial_fit(window(1))
    estimator.add_original(window(2), name="second")
    estimator.partial_fit({"first": window(2), "second": window(3)})
    estimator.partial_fit({"first": window(3)})
    return estimator


def state_layout(estimator: ContinualDensityRatio) -> dict:
    """Describe a state: its header, every tensor's type, shape and numbers."""
    state = estimator.to_bytes()
    length = int.from_bytes(state[:8], "little")
    header = json.loads(json.loads(state[8 : 8 + length])["__metadata__"]["driftline"])
    assert re.fullmatch("[0-9a-f]{64}", header.pop("digest"))
    tensors = {
        name: {"what": f"{value.dtype} {list(value.shape)}", "numbers": numbers(value)}
        for name, value in sorted(load(state).items())
    }
    return {
        "version": header["version"],
        "header": header,
        "tensors": tensors,
    }


def numbers(value: np.ndarray) -> list[float]:
    """Return all values of a small tensor, or some values and sums of a large one, which any change would alter."""
    flat = value.ravel()
    if flat.size <= 40:
        return flat.tolist()
    return [*flat[:: max(1, flat.size // 20)].tolist(), float(flat.sum()), float(np.abs(flat).sum())]


def inspected(found: dict) -> dict:
    found["created"] = "some day"
    sizes = [found, found["parts"], *found["holdings"]]
    for part in sizes:  # numbers may be written with more or fewer digits
        for name in {"bytes", "records", "progress", "run", "state"} & set(part):
            part[name] = part[name] if name == "records" and part is found else "some bytes"
    return found


def steady(page: str) -> str:
    """Remove the day a run was begun, sizes that depend on the number of digits written, style and script."""
    page = re.sub(r"(?s)<(style|script)>.*?</(style|script)>", r"<\1></\1>", page)
    page = re.sub(r"sha256-[\w+/=]+", "sha256-some", page)
    page = re.sub(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00(?=, watching|</dd><dt>window)", "some day", page)
    page = re.sub(r"begun on [^.]* UTC", "begun on some day UTC", page)
    page = re.sub(r"driftline: [\d,]+ bytes", "driftline: some bytes", page)
    return re.sub(r"(?m)^(records|run|progress|state) +[\d,]+ *$", r"\1 some bytes", page)


NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?(?![\w.]*\d)")


def differences(expected: object, found: object, where: str = "") -> list[str]:
    """List differences of two values: strings, integers, names and shapes exactly, floats beyond the tolerance."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if list(expected) != list(found):
            return [f"{where}: {list(found)} instead of {list(expected)}"]
        return [d for key in expected for d in differences(expected[key], found[key], f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return [f"{where}: {len(found)} instead of {len(expected)} entries"]
        pairs = enumerate(zip(expected, found, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}[{i}]")]
    if isinstance(expected, float) and isinstance(found, float):
        close = math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return [] if close or (expected != expected and found != found) else [f"{where}: {found} instead of {expected}"]
    same = type(expected) is type(found) and expected == found
    return [] if same else [f"{where}: {found!r} instead of {expected!r}"]


def page_differences(expected: str, found: str) -> list[str]:
    """List differences of pages and screens: words exactly, decimal fractions to one unit of their last place."""
    before, after = NUMBER.split(expected), NUMBER.split(found)
    if before != after:
        same = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), len(expected))
        around = slice(max(0, same - 100), same + 100)
        return [f"{found[around]!r} instead of {expected[around]!r}"]
    out = []
    for a, b in zip(NUMBER.findall(expected), NUMBER.findall(found), strict=True):
        place = 10.0 ** -len(a.partition("e")[0].partition(".")[2])
        if abs(float(a) - float(b)) > 1.01 * place:
            out.append(f"{b} instead of {a}")
    return out


def compared(name: str, expected: str, found: str) -> list[str]:
    if name.endswith(".json"):
        return differences(json.loads(expected), json.loads(found), name)
    return page_differences(expected, found)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return made(tmp_path_factory.mktemp("golden"))


NAMES = sorted(path.name for path in EXPECTED.iterdir() if path.suffix in (".json", ".html", ".txt"))


@pytest.mark.parametrize("name", NAMES)
def test_equals_what_was_written_before(found, name):
    expected = (EXPECTED / name).read_text(encoding="utf-8")
    different = compared(name, expected, found[name])
    assert not different, f"{len(different)} differences:\n" + "\n".join(different[:20])


def test_nothing_is_left_out(found):
    assert sorted(found) == NAMES


def test_a_tracker_file_written_before_is_read_and_goes_on(tmp_path):
    """Records and the next windows come from a file that an earlier version wrote."""
    shutil.copy(EXPECTED / "run.driftline", tmp_path / "run.driftline")
    rest = csv_by_rows(tmp_path)
    with Monitor.open(tmp_path / "run.driftline") as monitor:
        read = [json.loads(record.to_json()) for record in monitor.records]
        expected = json.loads((EXPECTED / "csv_by_rows.json").read_text(encoding="utf-8"))
        assert not differences(expected[: len(read)], records(read))
    printed = driftline(tmp_path, "watch", rest[0], "--tracker", "run.driftline", "--json")
    went_on = records(map(json.loads, printed.splitlines()))
    assert [line["window"] for line in went_on] == [4, 5]
    for line, before in zip(went_on, expected[4:], strict=True):
        assert not differences({**before, "digest": line["digest"]}, line)


def test_a_state_saved_before_is_loaded(tmp_path):
    estimator = ContinualDensityRatio.load(EXPECTED / "estimator.safetensors")
    expected = json.loads((EXPECTED / "state.json").read_text(encoding="utf-8"))
    assert not differences(expected, json.loads(text(state_layout(estimator))))


def test_a_changed_digit_word_or_name_is_noticed():
    assert differences({"a": [1.0]}, {"a": [1.00001]})
    assert not differences({"a": [1.0, math.nan]}, {"a": [1.0000001, math.nan]})
    assert differences({"a": 1}, {"a": 1.0})
    assert differences({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert differences([1], [1, 2])
    assert page_differences("drift of 0.50 nats", "drift of 0.52 nats")
    assert not page_differences("drift of 0.50 nats", "drift of 0.51 nats")
    assert page_differences("3 rows", "4 rows")


def layout(value: object) -> object:
    """Return names and types without contents, which is what a version stands for."""
    if isinstance(value, dict):
        return {key: layout(part) for key, part in value.items()}
    return [layout(value[0])] if isinstance(value, list) and value else type(value).__name__


def unversioned(name: str, old: str, new: str) -> bool:
    """Say whether a format has another layout under the same version."""
    if not name.endswith(("-tracker.json", "encoder.json", "state.json")):
        return False
    before, after = json.loads(old), json.loads(new)
    return before["version"] == after["version"] and layout(before) != layout(after)


def test_a_new_layout_needs_a_new_version():
    old, new = {"version": 3, "tensors": {"a": "x"}}, {"version": 3, "tensors": {"b": "x"}}
    assert unversioned("state.json", json.dumps(old), json.dumps(new))
    assert not unversioned("state.json", json.dumps(old), json.dumps({**new, "version": 4}))
    assert not unversioned("state.json", json.dumps(old), json.dumps(old))


def renew() -> None:
    """Rewrite the expected files."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = made(folder)
        for name, content in found.items():
            path = EXPECTED / name
            if path.exists() and unversioned(name, path.read_text(encoding="utf-8"), content):
                sys.exit(f"{name}: the layout changed, its version did not")
        for name, content in found.items():
            (EXPECTED / name).write_text(content, encoding="utf-8")
        arguments = csv_by_rows(folder)
        lines = (folder / "rows.csv").read_text().splitlines(keepends=True)
        (folder / "rows.csv").write_text("".join(lines[: 1 + 4 * ROWS]))
        driftline(folder, "watch", *arguments, "--tracker", "run.driftline")
        shutil.copy(folder / "run.driftline", EXPECTED / "run.driftline")
        (EXPECTED / "estimator.safetensors").write_bytes(traced().to_bytes())


if __name__ == "__main__":
    renew()

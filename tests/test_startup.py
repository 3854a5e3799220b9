"""Commands that only read, help, and refuse do not wait for SciPy, scikit-learn, matplotlib or PyTorch."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from driftline import Monitor

HEAVY = ("torch", "scipy", "sklearn", "matplotlib")
RUN = f"""
import json, sys
from driftline.cli import run
code = run(sys.argv[1:])
print(json.dumps([code, [module for module in {HEAVY} if module in sys.modules]]), file=sys.stderr)
"""
COMMANDS = (
    "watch",
    "report",
    "weights",
    "inspect",
    "compare",
    "serve",
    "demo",
    "original",
    "original add",
    "original list",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder with a tracker file of three windows and a table."""
    import pyarrow as pa
    import pyarrow.csv

    folder, rng = tmp_path_factory.mktemp("startup"), np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300)})
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    with Monitor(folder / "run.driftline", window=100) as monitor:
        assert len(list(monitor.watch(folder / "rows.csv"))) == 3
    with Monitor(folder / "sums.driftline", window=150, keep="sums") as monitor:
        assert len(list(monitor.watch(folder / "rows.csv"))) == 2
    return folder


def loaded(arguments, folder):
    """Return the exit code of a command in a process of its own, and the heavy modules that it loaded."""
    command = [sys.executable, "-c", RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "COLUMNS": "100"})
    assert "Traceback" not in done.stderr, done.stderr
    code, found = json.loads(done.stderr.splitlines()[-1])
    return code, found


@pytest.mark.parametrize(
    "arguments",
    [
        "inspect run.driftline",
        "inspect run.driftline --arrays",
        "inspect run.driftline --json",
        "inspect sums.driftline --prove",
        "original list run.driftline",
        "report run.driftline --out page.html",
        "--help",
        "--version",
        *(f"{command} --help" for command in COMMANDS),
    ],
)
def test_reading_and_help_load_nothing_heavy(place, arguments):
    assert loaded(arguments.split(), place) == (0, [])


@pytest.mark.parametrize(
    "arguments",
    [
        "nonsense",
        "watch",
        "watch --nope",
        "watch rows.csv --time-column x",
        "watch rows.csv --window 1",
        "watch rows.csv --window many",
        "watch rows.csv --window 100 --model none",
        "watch rows.csv --window 100 --tolerance -1",
        "watch rows.csv --window 100 --keep sums --model mlp",
        "watch rows.csv --window 100 --format none",
        "watch rows.csv --window 100 --original none",
        "watch rows.csv --window 100 --report page.pdf",
        "watch rows.csv --window 100 --config none.toml",
        "watch none.csv --window 100",
        "watch rows.csv --window 50 --tracker run.driftline",
        "report",
        "report none.driftline",
        "report rows.csv",
        "report run.driftline --out page.pdf",
        "report run.driftline --original none",
        "weights run.driftline rows.csv",
        "weights run.driftline rows.csv --out out.none",
        "weights run.driftline none.csv --out out.csv",
        "inspect none.driftline",
        "inspect run.driftline --against none.csv",
        "compare rows.csv none.csv",
        "compare rows.csv rows.csv --tolerance -1",
        "original add run.driftline",
        "original add run.driftline --name original",
        "original list none.driftline",
        "demo --weeks 1",
        "watch rows.csv --window 100 --webhook ftp://x",
        "watch rows.csv --window 100 --on-alarm no-such-program",
    ],
)
def test_wrong_options_are_refused_before_anything_heavy_is_loaded(place, arguments):
    assert loaded(arguments.split(), place) == (2, [])


def test_a_heavy_module_would_be_noticed_and_watching_loads_only_one(place):
    assert loaded(["watch", "rows.csv", "--window", "100"], place) == (0, ["scipy"])

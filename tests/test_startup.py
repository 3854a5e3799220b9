"""Commands that only read, help, and refuse do not wait for SciPy, scikit-learn, matplotlib or PyTorch."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from driftline import Monitor

HEAVY = ("torch", "scipy", "sklearn", "matplotlib")
# One process starts, and each command runs in a copy of it, since a start costs most of a second. What the copies have
# in common is nothing heavy, or the first answer would say so: what else a copy has, its command has loaded.
SERVE = f"""
import json, os, sys
from driftline.cli import run

def heavy():
    return [module for module in {HEAVY} if module in sys.modules]

sys.stderr = open(os.devnull, "w")
for common in ("--help", "inspect run.driftline --json", "original list run.driftline", "watch none.csv --window 100"):
    run(common.split())
answers = os.fdopen(int(sys.argv[1]), "w")
print(json.dumps(heavy()), file=answers, flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        arguments, told = json.loads(line)
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stderr = os.fdopen(2, "w")
        print(json.dumps([run(arguments), heavy()]), file=answers, flush=True)
        sys.stderr.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps(None), file=answers, flush=True)
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


@pytest.fixture(scope="module")
def loaded(place):
    """Function that returns a command's exit code, and the heavy modules that it loaded, in a process of its own."""
    read, write = os.pipe()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(write)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=place,
        env={**os.environ, "COLUMNS": "100"},
        pass_fds=[write],
    )
    os.close(write)
    with os.fdopen(read) as answers, server:
        assert json.loads(answers.readline()) == []  # what all commands begin with

        def ask(arguments):
            told = place / "stderr.txt"
            print(json.dumps([arguments.split(), str(told)]), file=server.stdin, flush=True)
            answer = json.loads(answers.readline())
            said = told.read_text(encoding="utf-8")
            assert answer is not None, said
            assert "Traceback" not in said, said
            return tuple(answer)

        yield ask
        server.stdin.close()


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
def test_reading_and_help_load_nothing_heavy(loaded, arguments):
    assert loaded(arguments) == (0, [])


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
def test_wrong_options_are_refused_before_anything_heavy_is_loaded(loaded, arguments):
    assert loaded(arguments) == (2, [])


def test_a_heavy_module_would_be_noticed_and_watching_loads_only_one(loaded):
    assert loaded("watch rows.csv --window 100") == (0, ["scipy"])


def test_a_new_process_loads_nothing_heavy_either(place):
    """As people start it, not in a copy of a process that has begun already."""
    inspect = "from driftline.cli import run; code = run(['inspect', 'run.driftline'])"
    check = f"import sys; sys.exit(code or any(module in sys.modules for module in {HEAVY}))"
    subprocess.run([sys.executable, "-c", f"{inspect}; {check}"], cwd=place, check=True)

"""Plugin for ``make test-light``: tests of base and [monitor], without PyTorch, matplotlib and what [serve] brings.

Modules whose own imports need what is missing are left out; single tests have the marks ``networks`` and ``figures``.
What is asked here is whether the code runs at all, and ``make test`` has asked the rest: of a test's parameters those
that differ only in numbers (seeds, sizes) run once, and words, which choose other code, all run.
So that nothing is left out by accident, the run fails unless each part of ``MUST_PASS`` had that many passing tests.
"""

import ast
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from driftline._extras import is_installed

ROOT = Path(__file__).parents[1]
LACKING = ("torch", "torchmetrics", "matplotlib", "fastapi", "prometheus_client", "starlette", "uvicorn")
# four fifths of what passes today: tests may go, parts may not
MUST_PASS = {
    "src": 88,
    "tests/_engine": 32,
    "tests/alarms": 12,
    "tests/cli": 155,
    "tests/estimators": 182,
    "tests/federated": 60,
    "tests/fitting": 160,
    "tests/golden": 12,
    "tests/inference": 113,
    "tests/monitor": 104,
    "tests/recursion": 217,
    "tests/report": 56,
    "tests/sources": 164,
    "tests/synthetic": 14,
    "tests/tables": 90,
    "tests/terminal": 21,
    "tests/test_benchmarks.py": 5,
    "tests/test_errors.py": 13,
    "tests/test_files.py": 3,
    "tests/test_examples.py": 2,
    "tests/test_exports.py": 1,
    "tests/test_extras.py": 16,
    "tests/test_gates.py": 12,
    "tests/test_hold_or_doubt.py": 4,
    "tests/test_house.py": 32,
    "tests/test_trust.py": 1,
    "tests/test_inputs.py": 28,
    "tests/test_light.py": 15,
    "tests/test_overflow.py": 1,
    "tests/test_roots.py": 3,
    "tests/test_smooth.py": 20,
    "tests/test_startup.py": 37,
    "tests/test_threads.py": 13,
    "tests/test_wording.py": 11,
}

# modules about networks, figures and the server, and folders of them: others mark their tests instead
MAY_LACK = (
    "src/driftline/evaluation/",
    "src/driftline/features/",
    "src/driftline/fitting/_autograd.py",
    "src/driftline/fitting/_networks.py",
    "src/driftline/fitting/_seeding.py",
    "src/driftline/fitting/_training.py",
    "src/driftline/recursion/_network.py",
    "src/driftline/report/_figure.py",
    "src/driftline/server/",
    "src/driftline/report/_plotted.py",
    "tests/evaluation/",
    "tests/experiments/",
    "tests/features/",
    "tests/report/test_figure.py",
    "tests/server/",
    "tests/spark/",  # skipped without PySpark and Java
)

_passed: Counter[str] = Counter()


def pytest_configure():
    present = [module for module in LACKING if is_installed(module)]
    if present:
        raise pytest.UsageError(f"these tests are for an environment without {', '.join(present)}")


def code_of(nodeid: str, params: Mapping[str, object]) -> tuple[str, ...]:
    """Return what two runs of a test have in common if only numbers tell them apart.

    >>> code_of("tests/test_a.py::test_b[auto-1]", {"model": "auto", "seed": 1})
    ('tests/test_a.py::test_b', 'model', 'auto')
    """
    words = [(name, str(value)) for name, value in sorted(params.items()) if not _is_number(value)]
    return (nodeid.partition("[")[0], *(part for pair in words for part in pair))


def _is_number(value: object) -> bool:
    if isinstance(value, tuple | list | range):
        return all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out runs of a test that differ from one before in numbers alone."""
    known, repeated = set(), []
    for item in items:
        code = code_of(item.nodeid, item.callspec.params if hasattr(item, "callspec") else {})
        if code in known:
            repeated.append(item)
        known.add(code)
    left = set(repeated)
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in left]


@cache
def lacks(path: Path) -> bool:
    """Say whether the imports at the top of a file need a module that is missing here."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in (node for node in body if isinstance(node, ast.Import | ast.ImportFrom)):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        try:
            exec(compile(ast.Module([node], []), str(path), "exec"), {})
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in LACKING:
                return True
    return False


def left_out() -> list[str]:
    """Return the modules that cannot be collected here."""
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("test_*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found if lacks(path))


def pytest_ignore_collect(collection_path):
    if collection_path.name == "experiments":  # its conftest.py needs them
        return True
    return True if collection_path.suffix == ".py" and lacks(collection_path) else None


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        _passed[part_of(report.nodeid)] += 1


def part_of(nodeid: str) -> str:
    """Return the part that a test belongs to: ``src``, a folder of ``tests``, or a file directly in it."""
    folders = nodeid.partition("::")[0].split("/")
    return "src" if folders[0] == "src" else "/".join(folders[:2])


def complaints(passed: Mapping[str, int], left: list[str]) -> list[str]:
    """Say what should have run and did not.

    Arguments:
        passed: number of tests that passed, by part.
        left: modules that were left out.
    """
    needed = ", ".join(LACKING)
    few = {part: least for part, least in MUST_PASS.items() if passed.get(part, 0) < least}
    return [
        *(f"{part}: {passed.get(part, 0)} tests passed, at least {least} must" for part, least in few.items()),
        *(f"{name} was left out: it needs one of {needed}" for name in left if not name.startswith(MAY_LACK)),
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput") and session.exitstatus == 0 and complaints(_passed, left_out()):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for line in complaints(_passed, left_out()):
        terminalreporter.line(line, red=True)

"""Plugin for ``make test-light``: the tests of base and [monitor], where PyTorch and matplotlib are not installed.

Modules whose own imports need what is missing are left out; single tests have the marks ``networks`` and ``figures``.
So that nothing is left out by accident, the run fails unless each part of ``MUST_PASS`` had that many passing tests.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

from driftline._extras import is_installed

ROOT = Path(__file__).parents[1]
LACKING = ("torch", "torchmetrics", "matplotlib")
# about two thirds of what passes today: tests may go, parts may not
MUST_PASS = {
    "src": 100,
    "tests/cli": 60,
    "tests/estimators": 20,
    "tests/fitting": 15,
    "tests/golden": 3,
    "tests/inference": 15,
    "tests/monitor": 60,
    "tests/recursion": 15,
    "tests/report": 60,
    "tests/sources": 120,
    "tests/synthetic": 3,
    "tests/tables": 60,
    "tests/terminal": 10,
    "tests/test_alarms.py": 15,
    "tests/test_extras.py": 5,
    "tests/test_startup.py": 10,
}

_passed: Counter[str] = Counter()
_left_out: list[str] = []


def pytest_configure():
    present = [module for module in LACKING if is_installed(module)]
    if present:
        raise pytest.UsageError(f"these tests are for an environment without {', '.join(present)}")


def lacks(path: Path) -> bool:
    """Say whether the imports at the top of a file need a module that is missing here."""
    top = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in top:
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
            continue
        try:
            exec(compile(ast.Module([node], []), str(path), "exec"), {})
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in LACKING:
                return True
    return False


def pytest_ignore_collect(collection_path):
    shared = collection_path / "conftest.py"
    file = shared if shared.is_file() else collection_path
    if file.suffix == ".py" and (file is shared or ROOT / "src" in file.parents or file.name.startswith("test_")) and lacks(file):
        _left_out.append(str(collection_path.relative_to(ROOT)))
        return True
    return None


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        folders = report.nodeid.partition("::")[0].split("/")
        _passed["src" if folders[0] == "src" else "/".join(folders[:2])] += 1


def _short() -> dict[str, int]:
    return {part: _passed[part] for part, least in MUST_PASS.items() if _passed[part] < least}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput") and session.exitstatus == 0 and _short():
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for part, number in _short().items():
        terminalreporter.line(f"{part}: {number} tests passed, at least {MUST_PASS[part]} must", red=True)
    if _left_out:
        terminalreporter.line(f"left out, they need {', '.join(LACKING)}: {', '.join(sorted(_left_out))}")

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
# fewer than pass today: tests may go, parts may not
MUST_PASS = {
    "src": 100,
    "tests/cli": 60,
    "tests/estimators": 20,
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

# modules that may be left out, and folders of them; any other one must do without what is missing, or mark its tests
MAY_LACK = (
    "src/driftline/evaluation",
    "src/driftline/features",
    "src/driftline/fitting/_autograd.py",
    "src/driftline/fitting/_networks.py",
    "src/driftline/fitting/_seeding.py",
    "src/driftline/fitting/_training.py",
    "src/driftline/recursion/_network.py",
    "src/driftline/report/_figure.py",
    "tests/evaluation",
    "tests/experiments",
    "tests/features",
    "tests/report/test_figure.py",
    # these import PyTorch at the top for some of their tests
    "tests/estimators/test_estimators.py",
    "tests/fitting/test_models.py",
    "tests/fitting/test_newton.py",
    "tests/fitting/test_objectives.py",
    "tests/inference/test_attribution.py",
    "tests/inference/test_dependence.py",
    "tests/inference/test_influence.py",
    "tests/recursion/test_quantities.py",
    "tests/recursion/test_screening.py",
    "tests/recursion/test_storage.py",
    "tests/test_inputs.py",
)

_passed: Counter[str] = Counter()


def pytest_configure():
    present = [module for module in LACKING if is_installed(module)]
    if present:
        raise pytest.UsageError(f"these tests are for an environment without {', '.join(present)}")


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
        folders = report.nodeid.partition("::")[0].split("/")
        _passed["src" if folders[0] == "src" else "/".join(folders[:2])] += 1


def complaints() -> list[str]:
    """Say what should have run and did not."""
    few = {part: least for part, least in MUST_PASS.items() if _passed[part] < least}
    return [
        *(f"{part}: {_passed[part]} tests passed, at least {least} must" for part, least in few.items()),
        *(f"{name} was left out: it needs {LACKING}" for name in left_out() if not name.startswith(MAY_LACK)),
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput") and session.exitstatus == 0 and complaints():
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for line in complaints():
        terminalreporter.line(line, red=True)

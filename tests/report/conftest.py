import importlib.util
from pathlib import Path

import pytest

_FILE = Path(__file__).with_name("runs.py")


@pytest.fixture(scope="session")
def runs():
    """Module ``runs.py`` beside this one, loaded by path since tests are not a package."""
    spec = importlib.util.spec_from_file_location("report_runs", _FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cases(runs):
    """Runs by name that a report must be able to show."""
    return runs.cases()

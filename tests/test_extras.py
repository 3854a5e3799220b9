"""The core without its extras: features that need one name it, and the rest works."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(("pyarrow", "pandas", "typer", "rich", "matplotlib")))
import driftline, driftline.cli, driftline.evaluation, driftline.tables
from driftline.estimators import ContinualDensityRatio
from driftline.features import ContinualVAE
from driftline.inference import divergence
for action in (
    lambda: driftline.Monitor,
    lambda: driftline.tables.TableEncoder,
    lambda: driftline.evaluation.ContinualEvaluation,
    lambda: driftline.TableDecoder,
):
    try:
        action()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print("no error")
exec("from driftline import *; __version__")
print(driftline.cli.run(["--help"]))
"""


@pytest.fixture(scope="module")
def said():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (0, "ImportError: driftline.Monitor needs pyarrow: pip install 'driftline[monitor]'"),
        (1, "tables need pyarrow: pip install 'driftline[monitor]'"),
        (2, "ModuleNotFoundError: driftline.evaluation needs pandas: pip install 'driftline[eval]'"),
        (3, "AttributeError: "),
        (4, "2"),
    ],
)
def test_missing_extra_is_named(said, line, wanted):
    assert wanted in said[0][line]


def test_the_command_names_its_missing_extra(said):
    assert "the command needs typer: pip install 'driftline[monitor]'" in said[1]

"""The command: the demo runs, shows truth beside estimate, draws; wrong use ends with a clear line."""

import subprocess
import sys

import pytest


def command(*args):
    return subprocess.run([sys.executable, "-m", "driftline", *args], capture_output=True, text=True, timeout=300)


def test_demo(tmp_path):
    figure = tmp_path / "demo.png"
    done = command("demo", "--windows", "4", "--rows", "1000", "--figure", str(figure))
    assert done.returncode == 0, done.stderr
    assert "truth" in done.stdout
    assert "4/4" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("args", [("demo", "--model", "forest"), ("demo", "--windows", "1"), ("nonsense",)])
def test_wrong_use(args, tmp_path):
    done = command(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_has_examples():
    done = command("demo", "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout

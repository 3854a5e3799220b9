"""The guard of ``make test-light``: a part that did not run makes it fail, even where every test that ran passed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import light

ROOT = Path(__file__).parents[1]

# pytest as make test-light runs it, in a process that finds none of the modules named first
RUN = """
import sys
from importlib.machinery import PathFinder
find, hidden = PathFinder.find_spec, sys.argv[1].split(",")

@classmethod
def find_spec(cls, name, *more):
    return None if name.split(".")[0] in hidden else find(name, *more)

PathFinder.find_spec = find_spec
import pytest
sys.exit(pytest.main(["-p", "tests.light", "-p", "no:cacheprovider", "-q", *sys.argv[2:]]))
"""


def run(*arguments, hidden=light.LACKING):
    return subprocess.run(
        [sys.executable, "-c", RUN, ",".join(hidden), *arguments], capture_output=True, text=True, cwd=ROOT
    )


def test_nothing_is_said_when_every_part_ran():
    assert light.complaints(light.MUST_PASS, [f"{light.MAY_LACK[0]}_judge.py"]) == []


@pytest.mark.parametrize("part", light.MUST_PASS)
def test_every_part_is_missed(part):
    least = light.MUST_PASS[part]
    said = f"{part}: {{}} tests passed, at least {least} must"
    assert light.complaints(light.MUST_PASS | {part: least - 1}, []) == [said.format(least - 1)]
    without = {other: count for other, count in light.MUST_PASS.items() if other != part}
    assert light.complaints(without, []) == [said.format(0)]


def test_modules_that_need_more_than_they_may_are_named():
    found = light.complaints(light.MUST_PASS, ["src/driftline/features/_vae.py", "tests/tables/test_drift.py"])
    assert found == [f"tests/tables/test_drift.py was left out: it needs one of {', '.join(light.LACKING)}"]


def test_tests_belong_to_parts():
    nodes = {
        "src/driftline/tables/_cells.py::driftline.tables._cells": "src",
        "tests/report/test_page.py::test_page[a::b/c]": "tests/report",
        "tests/test_wording.py::test_counts": "tests/test_wording.py",
    }
    assert {node: light.part_of(node) for node in nodes} == nodes


def test_every_part_has_a_minimum():
    """A new folder or file of tests joins ``MUST_PASS``, unless it is about networks and figures as a whole."""
    parts = {light.part_of(path.relative_to(ROOT).as_posix()) for path in (ROOT / "tests").rglob("test_*.py")}
    wanted = {part for part in parts if not f"{part}/".startswith(light.MAY_LACK)}
    assert set(light.MUST_PASS) == {"src", *wanted}
    assert all((ROOT / name).exists() for name in light.MAY_LACK)


@pytest.mark.full
def test_a_run_of_a_single_part_fails_though_its_tests_pass():
    done = run("tests/test_wording.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert " failed" not in done.stdout
    said = [part for part in light.MUST_PASS if f"\n{part}: 0 tests passed" in done.stdout]
    assert said == [part for part in light.MUST_PASS if part != "tests/test_wording.py"]
    assert "was left out" not in done.stdout


def test_tests_that_would_be_left_out_by_accident_are_named(tmp_path):
    top, inside, ours = (tmp_path / f"{name}.py" for name in ("top", "inside", "ours"))
    top.write_text("import torch\n")
    inside.write_text("def test():\n    import torch\n")
    ours.write_text("from __future__ import annotations\nfrom driftline.fitting import MLP\n")
    asked = "from pathlib import Path; from tests.light import lacks; print(*(lacks(Path(p)) for p in sys.argv[2:]))"
    hide = RUN.partition("import pytest")[0]
    done = subprocess.run(
        [sys.executable, "-c", hide + asked, ",".join(light.LACKING), top, inside, ours],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.split() == ["True", "False", "True"], done.stderr


@pytest.mark.networks
def test_it_is_not_for_environments_that_have_everything():
    done = run("tests/test_wording.py", hidden=["nothing"])
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "these tests are for an environment without torch" in done.stderr

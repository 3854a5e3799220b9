"""Benchmarks: what they compute from measurements; the measuring itself runs by ``make bench``."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import child, scaling
from benchmarks.results import INF, Result, markdown
from benchmarks.versions import Version


def test_markdown_says_whether_a_bar_is_met():
    results = [
        Result("fast", -1, 3.0, (2.7, INF)),
        Result("slow", -1, 2.0, (2.7, INF)),
        Result("small", 0, 1.0, 1.1),
        Result("plain", 0, 7.0, None),
    ]
    assert markdown(results).splitlines()[2:] == [
        "| fast | 3 | ≥ 2.7 | pass |",
        "| slow | 2 | ≥ 2.7 | **miss** |",
        "| small | 1 | ≤ 1.1 | pass |",
        "| plain | 7 |  |  |",
    ]


def test_crossing_of_power_laws_is_where_they_meet():
    sizes = (100, 200, 400, 800)
    assert scaling._crossing(sizes, [(size / 300) ** 2 for size in sizes]) == pytest.approx(300)
    assert scaling._crossing(sizes, [0.5] * 4) == INF
    assert scaling._crossing(sizes, [2.0] * 4) == 0.0


def test_slope_of_a_power_law_is_its_exponent():
    assert scaling._slope((1, 10, 100), [3.0, 3.0 * 10**1.5, 3.0 * 10**3]) == pytest.approx(1.5)


def test_rows_of_windows_do_not_count_as_state(tmp_path):
    from safetensors.numpy import save_file

    bare, full = tmp_path / "bare", tmp_path / "full"
    other = np.zeros((3, 7))
    save_file({"other": other}, bare)
    save_file({"other": other, "window": np.zeros((1000, 3))}, full)
    assert child._beyond_rows(full, (1000, 3)) - bare.stat().st_size < 200  # its entry in the header


def test_a_process_is_measured_and_a_failing_one_is_reported(tmp_path):
    version = Version("any", Path(sys.executable))
    cost = version.run("-c", "sum(range(10**7)); print('done')", folder=tmp_path)
    assert cost.printed == "done\n"
    assert 0.0 < cost.cpu <= cost.wall + 0.1  # one thread
    with pytest.raises(RuntimeError, match="exit code 3"):
        version.run("-c", "raise SystemExit(3)", folder=tmp_path)


def test_a_child_measures_steps_of_this_version(tmp_path):
    here = Version("this", Path(sys.executable), {"PYTHONPATH": os.pathsep.join(sys.path)})
    found = here.ask("step", 300, 3, 2, folder=tmp_path)
    assert set(found) == {"cpu", "wall", "gram", "memory"}
    assert all(value > 0.0 for value in found.values())


def test_benchmarks_load_without_pytorch():
    code = "import sys, benchmarks.__main__; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])

"""Benchmarks: what they compute from measurements; the measuring itself runs by ``make bench``."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from benchmarks import child, honesty_cost, scaling, spark
from benchmarks.results import INF, Kept, Result, markdown, numbers
from benchmarks.versions import CHILD, Version
from driftline import ContinualDensityRatio


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


def test_the_first_edition_stands_beside_what_is_measured():
    lines = markdown([Result("new", 0, 1.0, 2.0, first=4.0), Result("new", 1, 3.0, 2.0, first=4.0)]).splitlines()
    assert lines[0] == "| what | value by seed | first edition | bar |  |"
    assert lines[2] == "| new | 1  3 | 4 | ≤ 2 | **miss** |"


def test_an_excused_seed_does_not_miss_the_bar():
    assert "pass" in markdown([Result("kl", 0, 0.0, 1.0), Result("kl", 1, 5.0, None)])


def test_kept_numbers_are_valid_json():
    """JSON has no nan; four digits are more than any bar needs."""
    kept = numbers([Result("kl", 0, 1.23456789, None), Result("kl", 1, INF, None), Result("mae", 0, 1e-7, None)])
    assert kept == {"kl": [1.235, None], "mae": [1e-7]}


def test_a_run_goes_on_where_it_was_interrupted(tmp_path):
    path = tmp_path / "found.json"
    found = [Result("kl", 0, 1.5, (0.5, INF), 2.0), Result("kl", 1, INF, 0.1), Result("mae", -1, 0.2, None)]
    Kept.read(path).add("first", found)
    again = Kept.read(path)
    assert again.found == {"first": found}
    again.add("second", [])
    assert list(Kept.read(path).found) == ["first", "second"]
    assert Kept.read(None).found == {}


def test_long_benchmarks_run_only_if_they_are_named():
    from benchmarks.__main__ import BENCHMARKS, GROUPS, LONG

    parts = [name for group in LONG for name in GROUPS.get(group, [group])]
    assert set(parts) <= set(BENCHMARKS)
    assert {"untidy-rare", "auditor-bent", "hold-or-doubt-flights", "hold-or-doubt-quiet"} <= set(parts)


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


def test_a_child_finds_streams_without_shadowing_other_modules(tmp_path):
    """It adds the root to its path, last: modules beside it have names of others."""
    here = Version("this", Path(sys.executable), {"PYTHONPATH": os.pathsep.join(sys.path)})
    code = (
        f"import importlib.util as u, sys; s = u.spec_from_file_location('child', {str(CHILD)!r}); "
        "c = u.module_from_spec(s); s.loader.exec_module(c); "
        "stream, rows, steps = c._stream('latent'); print(type(stream).__name__, rows > 0, steps > 0)"
    )
    assert here.run("-P", "-c", code, folder=tmp_path).printed == "LatentClassStream True True\n"


def test_benchmarks_load_without_pytorch():
    code = "import sys, benchmarks.__main__; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_what_honesty_costs_is_told_by_switching_it_off():
    rows = np.random.default_rng(0).normal(size=(2, 400, 2))
    floors = []
    for switch in (nullcontext, honesty_cost._without):
        with switch():
            floors.append(
                ContinualDensityRatio(random_state=0).fit(rows[0]).partial_fit(rows[1] + 2.0).divergence().floor
            )
    assert floors[0] > 0.1
    assert not floors[1] > 0.0


def test_the_time_of_processes_that_have_ended_counts():
    """As below PySpark's daemon, which ignores that its workers end: the system then forgets their times."""
    worker = "e = time.process_time() + 0.5\n    while time.process_time() < e: pass\n    time.sleep(0.5); os._exit(0)"
    daemon = (
        f"import os, signal, sys, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif not os.fork():\n    {worker}"
    )
    with subprocess.Popen([sys.executable, "-c", f"{daemon}\nsys.stdin.read()"], stdin=subprocess.PIPE) as process:
        with spark.Meter(process.pid) as meter:
            while len([1 for parent, *_ in spark._processes().values() if parent == process.pid]) == 0:
                assert process.poll() is None
            while any(parent == process.pid for parent, *_ in spark._processes().values()):
                assert process.poll() is None
        process.communicate(b"")
    assert 0.4 <= meter.spent < 3.0

"""The runner: finished units stay finished, failures are named, nothing half-written is left."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace

import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments import catalogue, parts, runner
from experiments.__main__ import _arguments, _parser, main
from experiments.experiment import Experiment, Results, Unit, Work
from experiments.figures import band, canvas, plain_ticks, save, style
from experiments.files import write_atomically
from experiments.parts import Part, part_path, read_part, sources, write_part
from experiments.runner import UnitsFailedError, _write_up, execute, run_unit


@dataclass(frozen=True)
class Args:
    seeds: int = 2
    slow_seeds: int = 1
    factor: float = 1.0
    sizes: tuple[int, ...] = (1, 2)


def toy(run) -> Experiment:
    return Experiment(
        "toy",
        "Fig. 0",
        "a toy",
        {"quick": Args(), "paper": Args(seeds=10)},
        Work(lambda args: [Unit("one", seed, 2) for seed in range(args.seeds)], run),
        Results(lambda frame, args: Figure(), lambda args: "toy", lambda frame, args: "fine"),
    )


def rows(args, unit, report):
    report("busy")
    for t in range(2):
        yield {"t": t, "value": args.factor * (10 * unit.seed + t)}


def test_a_unit_is_written_whole_with_its_case_and_seed(tmp_path):
    run_unit(toy(rows), Args(), Unit("one", 1, 2), tmp_path)
    part = read_part(part_path(tmp_path, Args(), Unit("one", 1, 2)), Unit("one", 1, 2))
    assert part is not None
    frame = part.rows
    assert part.sources == sources()
    assert list(frame.columns) == ["case", "seed", "t", "value"]
    assert frame.value.tolist() == [10.0, 11.0]


def test_a_part_is_of_its_arguments_but_not_of_the_number_of_seeds(tmp_path):
    unit = Unit("one", 0, 2)
    run_unit(toy(rows), Args(), unit, tmp_path)
    assert part_path(tmp_path, Args(seeds=7, slow_seeds=3), unit).exists()
    assert not part_path(tmp_path, Args(factor=2.0), unit).exists()
    assert not part_path(tmp_path, Args(sizes=(1,)), unit).exists()
    assert not part_path(tmp_path, Args(), unit._replace(seed=1)).exists()


def test_a_part_may_be_of_some_arguments_only(tmp_path):
    unit = Unit("one", 0, 2, fields=("factor",))
    run_unit(toy(rows), Args(), unit, tmp_path)
    assert part_path(tmp_path, Args(sizes=(1,)), unit).exists()
    assert not part_path(tmp_path, Args(factor=2.0), unit).exists()


@dataclass(frozen=True)
class Staged(Args):
    judges: int = 1


def staged(log) -> Experiment:
    """Two trainings that keep a file, then judges that need it."""

    def units(args):
        trained = [Unit(f"train {k}", 0, 1, fields=("factor",)) for k in range(2)]
        return trained + [Unit(f"judge {k}", 0, 1, stage=1) for k in range(args.judges)]

    def run(args, unit, report, work):
        log.append(unit.case)
        work.mkdir(parents=True, exist_ok=True)
        (work / "kept").touch()
        yield {"t": 0, "value": 1.0}

    return replace(toy(rows), presets={"quick": Staged()}, work=Work(units, run, keeps=True))


def test_stages_run_in_turn_and_fresh_leaves_the_earlier_ones(tmp_path, monkeypatch):
    log: list[str] = []
    experiment = staged(log)

    def run_here(experiment, args, folder, todo, jobs, console):
        for unit in reversed(todo):
            run_unit(experiment, args, unit, folder)

    monkeypatch.setattr(runner, "_run_all", run_here)

    def go(args, **more):
        log.clear()
        execute(experiment, args, tmp_path, jobs=1, command="", **more)
        return list(log)

    assert go(Staged()) == ["train 1", "train 0", "judge 0"]
    assert go(Staged(judges=2)) == ["judge 1", "judge 0"]
    assert go(Staged(judges=2), fresh=True) == ["judge 1", "judge 0"]
    assert len(list((tmp_path / "toy" / "parts").glob("train-*/kept"))) == 2
    assert go(Staged(judges=0), fresh=True) == ["train 1", "train 0"]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.7, 6.0, ["1", "2", "5"]),
        (0.782, 0.811, ["0.79", "0.8", "0.81"]),
        (2.7, 11.5, ["4", "6", "8", "10"]),
        (1e-3, 1e3, None),
    ],
)
def test_ticks_of_a_log_axis_are_round_and_few(low, high, labels):
    with style():
        _, ax = canvas(1, 1)
        ax.plot([0, 1], [low, high])
        ax.set(yscale="log", ylim=(low, high))
        plain_ticks(ax)
    found = [text.get_text() for text in ax.get_yticklabels()]
    assert found == (labels or ["0.001", "0.01", "0.1", "1", "10", "100", "1000"])


def test_cases_that_look_alike_as_file_names_do_not_collide(tmp_path):
    assert part_path(tmp_path, Args(), Unit("a b", 0, 1)) != part_path(tmp_path, Args(), Unit("a, b", 0, 1))


def test_an_interrupted_unit_leaves_nothing(tmp_path):
    def broken(args, unit, report):
        yield {"t": 0, "value": 1.0}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_unit(toy(broken), Args(), Unit("one", 0, 2), tmp_path)
    assert not list(tmp_path.rglob("*.csv"))


def test_a_unit_with_other_rows_than_announced_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="0 rows instead of the 2 announced"):
        run_unit(toy(lambda args, unit, report: iter(())), Args(), Unit("one", 0, 2), tmp_path)


@pytest.mark.parametrize(
    "spoil",
    [lambda b: b"", lambda b: b[:-3], lambda b: b[: len(b) // 2], lambda b: b"\xff\xfe", lambda b: b + b"one,1,3,4\n"],
)
def test_a_part_that_is_not_whole_is_not_read(tmp_path, spoil):
    unit, path = Unit("one", 1, 2), tmp_path / "part.csv"
    write_part(path, pd.DataFrame({"t": [0, 1], "value": [0.125, 1.0625]}))
    assert read_part(path, unit) is not None
    assert read_part(path, unit._replace(rows=3)) is None
    path.write_bytes(spoil(path.read_bytes()))
    assert read_part(path, unit) is None
    assert read_part(tmp_path / "none.csv", unit) is None


def test_parts_of_other_code_are_recognised(tmp_path, monkeypatch):
    path = tmp_path / "part.csv"
    monkeypatch.setattr(parts, "sources", lambda: "0123456789")
    write_part(path, pd.DataFrame({"t": [0, 1]}))
    found = read_part(path, Unit("one", 1, 2))
    assert found is not None
    assert found.sources == "0123456789" != sources()


def test_an_error_in_the_write_up_leaves_the_old_one_whole(tmp_path):
    done = {Unit("one", 0, 1): Part(pd.DataFrame({"t": [0]}), "")}
    _write_up(toy(rows), Args(), tmp_path, done, "first")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken(frame, args):
        raise KeyError("method")

    for part in ("verdict", "figure"):
        results = toy(rows).results._replace(**{part: broken})
        with pytest.raises(KeyError):
            _write_up(replace(toy(rows), results=results), Args(), tmp_path, done, "second")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_unit_that_keeps_something_has_a_folder_and_fresh_empties_it(tmp_path, monkeypatch):
    unit = Unit("one", 0, 2)
    given = []

    def keeping(args, unit, report, work):
        given.append(work)
        work.mkdir(parents=True)
        (work / "half").write_text("done")
        yield from rows(args, unit, report)

    toyed = toy(keeping)
    experiment = replace(
        toyed,
        work=toyed.work._replace(keeps=True),
        results=toyed.results._replace(extras=lambda folder, frame, args: {"more": Figure()}),
        folder_fields=("factor", "sizes"),
    )
    assert experiment.place(tmp_path, Args(factor=2.5)) == tmp_path / "toy-2.5"
    folder = experiment.place(tmp_path, Args())
    assert folder == tmp_path / "toy"
    run_unit(experiment, Args(), unit, folder)
    assert given == [part_path(folder, Args(), unit).with_suffix("")]
    execute(experiment, Args(seeds=1), tmp_path, jobs=1, command="toy")
    assert (folder / "figure.png").exists()
    assert (folder / "more.png").exists()
    assert (given[0] / "half").exists()
    part_path(folder, Args(), unit).unlink()
    monkeypatch.setattr(runner, "_run_all", lambda *rest: None)  # another process would not find the toy
    with pytest.raises(UnitsFailedError, match="one, seed 0 vanished"):
        execute(experiment, Args(seeds=1), tmp_path, jobs=1, command="toy", fresh=True)
    assert not given[0].exists()


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "kept.txt"
    write_atomically(path, lambda p: p.write_text("old"))

    def fail(p):
        p.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_flags_replace_what_the_scale_says(monkeypatch):
    monkeypatch.setattr("experiments.__main__.EXPERIMENTS", {"toy": toy(rows)})
    given = _parser().parse_args(["toy", "--scale", "paper", "--sizes", "3", "4"])
    assert _arguments(toy(rows), given) == Args(seeds=10, sizes=(3, 4))
    given = _parser().parse_args(["toy", "--seeds", "1", "--scale", "quick"])
    assert _arguments(toy(rows), given) == replace(Args(), seeds=1)


@pytest.mark.parametrize(
    "bad",
    [
        ["nothing"],
        ["variance", "--seeds", "0"],
        ["variance", "--seeds", "x"],
        ["variance", "--scale", "big"],
        ["variance", "--rows", "0"],
        ["variance", "--out", __file__],
        ["publish", "--page", "nowhere.md"],
    ],
)
def test_bad_arguments_are_refused(bad, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(bad)
    assert stopped.value.code == 2
    assert "usage" in capsys.readouterr().err


def variance_in(folder, flags):
    return [sys.executable, "-m", "experiments", "variance", "--out", str(folder), "--jobs", "1", *flags.split()]


def test_command_runs_resumes_and_writes_everything(tmp_path, capsys):
    command = variance_in(tmp_path, "--means 3 --replicates 100")
    assert main(command[3:]) == 0  # here, where all is loaded; the second time in a process of its own
    first = capsys.readouterr().out
    folder = tmp_path / "variance"
    for name in ("results.csv", "figure.png", "figure.pdf", "verdict.md", "caption.md", "args.json"):
        assert (folder / name).stat().st_size > 0
    assert "Corollary" in (folder / "caption.md").read_text(encoding="utf-8")
    assert "finished already" not in first
    before = (folder / "results.csv").read_bytes()
    part = next(folder.joinpath("parts").glob("limit-*.csv"))
    part.write_bytes(part.read_bytes()[:-4])  # as if the machine had gone down in between
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 of 2 units are finished already" in again.stdout
    assert (folder / "results.csv").read_bytes() == before
    assert json.loads((folder / "args.json").read_text())["arguments"]["means"] == 3


@pytest.mark.slow
def test_a_failing_unit_is_named_and_the_others_are_kept(tmp_path):
    """With a hundred rows KLIEP has no minimum two standard deviations away: those fits fail, the limit's do not."""
    command = variance_in(tmp_path, "--means 2 --replicates 100 --rows 100")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 of 2 units of variance failed" in done.stdout
    assert "sample, seed 0" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert [p.name.split("-")[0] for p in (tmp_path / "variance" / "parts").iterdir()] == ["limit"]


def test_presets_and_names():
    for name, experiment in catalogue.EXPERIMENTS.items():
        assert experiment.name == name
        assert set(experiment.presets) == {"quick", "paper"}
        for args in experiment.presets.values():
            units = experiment.work.units(args)
            assert units, name
            assert len(set(units)) == len(units), name
            assert {u.seed for u in units} >= set(range(args.seeds)), name  # splits of real data may be more
            assert experiment.results.caption(args)


def test_bands_are_mean_and_spread_over_seeds():
    frame = pd.DataFrame({"t": [1, 1, 2, 2], "y": [1.0, 3.0, 5.0, 5.0]})
    with style():
        _, ax = canvas(1, 1)
        band(ax, frame, "t", "y", "y", "#000000")
    assert ax.lines[0].get_ydata().tolist() == [2.0, 5.0]
    reach = ax.collections[0].get_datalim(ax.transData)
    assert reach.y0 == pytest.approx(2.0 - 2.0**0.5)


def test_long_captions_stay_on_the_page(tmp_path):
    with style():
        fig, _ = canvas(1, 2)
        save(fig, tmp_path, "What is measured here and how, word for word. " * 12)
    renderer = fig.canvas.get_renderer()
    page, text = fig.bbox, fig.texts[-1].get_window_extent(renderer)
    assert text.x1 <= page.x1
    assert text.y0 >= 0
    lowest = min(ax.get_tightbbox(renderer).y0 for ax in fig.axes)
    assert text.y1 <= lowest
    assert text.x1 > 0.9 * page.x1

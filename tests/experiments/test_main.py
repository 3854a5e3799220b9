"""The door: a list of the experiments, flags that explain themselves, runs without warnings."""

import re
import warnings
from dataclasses import dataclass, fields, replace

import pytest

from experiments.__main__ import main
from experiments.arguments import flag, meaning
from experiments.catalogue import EXPERIMENTS
from experiments.data import DataMissingError
from experiments.runner import run_unit

SMALL = {
    "growing": {"turn": 2, "small": (4,), "large": (8,), "deep": (8, 8), "batch": 100, "pairs": 1},
    "penalty": {"rows": (200,), "replicates": 20, "deltas": (0.05,), "seeds": 1},
    "variance": {"means": 2, "replicates": 100, "rows": 50_000},
    "covariate-shift": {"seeds": 1, "rows": 200, "epochs": 1, "splits": 1, "split_weeks": 2, "split_windows": 2},
    "tracing-single": {"seeds": 1, "last": 4, "kliep_times": (4,), "tre_every": 2, "variants": ("printed", "code")},
    "tracing-multiple": {"seeds": 1, "originals": 3, "times": (3,), "test_rows": 100, "variants": ("printed", "code")},
    "step-size": {"seeds": 1, "last": 4, "sizes": (1, 4), "network_sizes": (1, 4), "network_epochs": 1},
    "ablation": {"seeds": 1, "last": 4},
    "gans": {"dataset": "digits", "tasks": 2, "iterations": 5, "generated": 60, "rows": 60, "vae_epochs": 1},
    "measures": {"seeds": 1, "dataset": "digits", "rows": 150, "pixel_rows": 150, "held": 100, "subsets": 2},
    "high-dimensional": {"seeds": 1, "dataset": "digits", "pool": 100, "rows": 60, "new": 30, "size": 32},
}
"""What makes an experiment small, beside few rows, columns and epochs."""


def test_without_a_name_the_experiments_are_listed(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    for name, experiment in EXPERIMENTS.items():
        [line, about] = re.search(rf"(?m)^({name} .*)\n(.*)$", said).groups()
        assert experiment.paper in line
        assert experiment.title in about
        for scale in experiment.presets:
            assert re.search(r"\d+ (s|min|h|days)\b", experiment.takes[scale]), (name, scale)
            assert experiment.takes[scale] in line
    assert max(map(len, said.splitlines())) <= 90


def test_a_wrong_name_is_answered_with_the_list(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["tracing-singel", "--scale", "quick"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].endswith("no experiment has the name 'tracing-singel': did you mean tracing-single?")
    assert all(f"\n{name} " in said for name in EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_flag_says_what_it_means(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for field in fields(EXPERIMENTS[name].presets["quick"]):
        told = meaning(field)
        assert told, f"{name}: describe --{field.name} by flag(...), or in arguments.py if several experiments have it"
        assert told == told.strip().rstrip(".")
        assert field.name == "seeds" or told in said, field.name  # --help itself says what seeds are


def test_a_flag_of_its_own_goes_before_the_shared_one():
    @dataclass(frozen=True)
    class Args:
        rows: int = flag(7, "rows of another kind")
        epochs: int = 3
        odd: int = 1

    assert Args().rows == 7
    rows, epochs, odd = fields(Args)
    assert meaning(rows) == "rows of another kind"
    assert "CKLIEP" in meaning(epochs)
    assert meaning(odd) == ""


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "stopping"])  # its warm start takes minutes
def test_a_run_warns_of_nothing(name, tmp_path):
    """Doubts are in the rows; a warning would run through the progress bars."""
    experiment = EXPERIMENTS[name]
    quick = experiment.presets["quick"]
    known = {field.name for field in fields(quick)}
    common = {"rows": 200, "dim": 4, "epochs": 1, "tre_epochs": 1, "last": 4, "classifier_epochs": 1}
    args = replace(quick, **{key: value for key, value in common.items() if key in known} | SMALL.get(name, {}))
    for unit in experiment.work.units(args):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                run_unit(experiment, args, unit, tmp_path)
            except DataMissingError:
                assert name == "high-dimensional"  # its network is an extra

import numpy as np
import pandas as pd
import pytest

from driftline.cli import run

ROWS = 300  # rows in a window


def _people(seed, moved=0.0, rows=ROWS):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40 + 10 * moved, 10, rows).round(3),
            "city": rng.choice(["Wien", "Graz", "Linz"], rows, p=[0.5, 0.3, 0.2]),
            "vip": rng.random(rows) < 0.3,
        }
    )


@pytest.fixture
def people():
    """Function that makes a table of people, 300 by default, ``moved`` decades older."""
    return _people


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Folder with a file of four windows of 300 rows, the last one moved, and its tracker file."""
    place = tmp_path_factory.mktemp("cli")
    frames = [_people(1000), _people(1001), _people(1002), _people(1003, moved=1.0)]
    pd.concat(frames).to_csv(place / "people.csv", index=False)
    frames[0].to_csv(place / "first.csv", index=False)
    frames[3].to_csv(place / "last.csv", index=False)
    watch = ["watch", str(place / "people.csv"), "--window", str(ROWS), "--tracker", str(place / "run.driftline")]
    assert run(watch) == 0
    return place


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """Copy of that folder to work in and change."""
    for path in folder.iterdir():
        if path.suffix in (".csv", ".driftline"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def said(capsys):
    """Function that returns what the command has printed, and its errors, none of them a traceback."""

    def read():
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return found.out, found.err

    return read

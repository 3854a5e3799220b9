"""Real data for the experiments, found through the environment variable ``DRIFTLINE_DATA``.

``python -m experiments.data FOLDER`` downloads the electricity table from OpenML to where ``DRIFTLINE_DATA=FOLDER``
finds it.
"""

from __future__ import annotations

import os
import sys
import zlib
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

from experiments.files import write_atomically

__all__ = ["DataMissingError", "download_electricity", "electricity", "electricity_missing"]

_VARIABLE = "DRIFTLINE_DATA"
_ELECTRICITY = Path("electricity") / "electricity.zip"
_COLUMNS = ["date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer", "class"]
_NUMBERS = [column for column in _COLUMNS if column not in ("day", "class")]
_OPENML_ELECTRICITY = 151
_UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error)  # a damaged or foreign zip


class DataMissingError(FileNotFoundError):
    """Data that an experiment needs is not on this machine; the message says what to do."""


def electricity_missing() -> str:
    """The reason why the electricity table cannot be used; empty if it is there and can be read."""
    try:
        electricity()
    except (DataMissingError, ValueError) as error:
        return str(error)
    return ""


def electricity() -> pd.DataFrame:
    """The New South Wales electricity market, 45,312 half-hours in time order from May 1996 to December 1998.

    Columns were scaled to [0, 1] before publication, but for ``day`` (1 to 7) and ``class`` (UP or DOWN: the price
    against its mean of the last 24 hours).
    """
    name, remedy = _ELECTRICITY.as_posix(), "python -m experiments.data FOLDER downloads it"
    folder = os.environ.get(_VARIABLE)
    if not folder:
        raise DataMissingError(f"{_VARIABLE} is not set; let it name a folder that holds {name} ({remedy})")
    if not (Path(folder) / _ELECTRICITY).is_file():
        raise DataMissingError(f"the folder that {_VARIABLE} names holds no {name} ({remedy})")
    try:
        table = pd.read_csv(Path(folder) / _ELECTRICITY)
    except _UNREADABLE as error:  # its own words may hold the whole path, which is nobody's business
        raise ValueError(f"{_VARIABLE}/{name} cannot be read ({type(error).__name__}; {remedy})") from error
    return _checked(table, f"{_VARIABLE}/{name}")


def _checked(table: pd.DataFrame, source: str) -> pd.DataFrame:
    if missing := [column for column in _COLUMNS if column not in table]:
        raise ValueError(f"{source} lacks the columns {missing}")
    try:
        table = table[_COLUMNS].astype({"day": int, "class": str, **dict.fromkeys(_NUMBERS, float)})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source} has something other than numbers where they should be") from error
    if unknown := sorted(set(table["class"]) - {"UP", "DOWN"}):
        raise ValueError(f"{source} has classes other than UP and DOWN: {unknown}")
    return table


def download_electricity(folder: Path) -> Path:
    """Fetch the table from OpenML and write it where ``DRIFTLINE_DATA=folder`` finds it; returns the file."""
    from sklearn.datasets import fetch_openml

    table = _checked(fetch_openml(data_id=_OPENML_ELECTRICITY, as_frame=True).frame, "OpenML's table")
    path = folder / _ELECTRICITY
    compression = {"method": "zip", "archive_name": "electricity.csv"}
    write_atomically(path, partial(table.to_csv, index=False, compression=compression))
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.data FOLDER")
    print(download_electricity(Path(sys.argv[1])))

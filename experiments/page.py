"""Keep the rows of finished runs in the repository, and draw the figures and verdicts of a page from them."""

from __future__ import annotations

import json
import shutil
import tempfile
import textwrap
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.experiment import Experiment
from experiments.figures import save
from experiments.files import write_atomically
from experiments.provenance import is_stale
from experiments.words import counted

__all__ = ["KEPT", "PublishingError", "publish", "shown", "source"]

KEPT = Path(__file__).parent / "results"
_FILES = "results.csv", "args.json"


class PublishingError(ValueError):
    """Nothing was published; the message says what is missing."""


class _Run(NamedTuple):
    """Rows of a finished run, and what ``args.json`` says about them; ``folder`` is where these two files are."""

    folder: Path
    table: pd.DataFrame
    about: dict[str, Any]


def publish(
    out: Path, page: Path, experiments: Mapping[str, Experiment], kept: Path = KEPT, *, figures: bool = True
) -> list[str]:
    """Fill ``<!-- begin NAME -->`` to ``<!-- end NAME -->`` with every run in ``out`` or kept; return their names.

    Rows and arguments of runs in ``out`` are kept first; figures and verdicts are drawn from what is kept. Further
    pictures, such as samples, are copied from ``out`` beside the page's figures. Everything is drawn before anything
    is written, so that a figure never stands beside the verdict of another run.
    """
    if not page.is_file():
        raise PublishingError(f"there is no page {page}: run this from the repository, or name one with --page")
    runs = {**_runs(kept, experiments), **_runs(out, experiments)}
    if not runs:
        raise PublishingError(f"no finished run of {', '.join(experiments)} in {out} or {kept}")
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        drawn = Path(name)
        for title, run in runs.items():
            begin, end = f"<!-- begin {title} -->", f"<!-- end {title} -->"
            if begin not in text or end not in text:
                raise PublishingError(f"{page} has no marks {begin} and {end} to put {title} between")
            if figures:
                _draw(run, experiments, drawn, title)
            pictures = [f"{title}.png", *sorted({*_further(run, title), *_there(page, title, runs)})]
            before, _, rest = text.partition(begin)
            body = shown(run.about, run.table, experiments, pictures)
            text = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
        for title, run in runs.items():
            for file in _FILES if run.folder != kept / title else ():
                write_atomically(kept / title / file, partial(shutil.copyfile, run.folder / file))
            for copy, picture in _further(run, title).items():
                write_atomically(page.parent / "figures" / copy, partial(shutil.copyfile, picture))
        for picture in drawn.glob("*.png"):
            write_atomically(page.parent / "figures" / picture.name, partial(shutil.copyfile, picture))
    write_atomically(page, lambda path: path.write_text(text, encoding="utf-8"))
    return list(runs)


def shown(
    about: Mapping[str, Any], table: pd.DataFrame, experiments: Mapping[str, Experiment], pictures: list[str]
) -> str:
    """What the page says of a run: the command, where the rows come from, pictures, the verdict."""
    experiment, made = experiments[about["made"]["experiment"]], about["made"]
    commits = ", ".join(made["commits"]) or "unknown"
    took = counted(round(made["minutes"]), "minute") if made["minutes"] >= 0.5 else "less than a minute"
    origin = f"Commit {commits}; {took} of one process."
    if any(map(is_stale, made["engines"])):
        origin += " **Stale: the numbers of driftline's default have changed since; run it again.**"
    seen = "\n\n".join(f"![{Path(picture).stem}](figures/{picture})" for picture in pictures)
    verdict = experiment.results.verdict(table, _arguments(experiment, about)).strip()
    lines = textwrap.wrap(about["command"], 116, break_long_words=False, break_on_hyphens=False)
    command = " \\\n  ".join(lines)
    return f"```sh\n{command}\n```\n\n{origin}\n\n{seen}\n\n{verdict}"


def _draw(run: _Run, experiments: Mapping[str, Experiment], folder: Path, name: str) -> None:
    experiment = experiments[run.about["made"]["experiment"]]
    args, results = _arguments(experiment, run.about), experiment.results
    save(results.figure(run.table, args), folder, " ".join(results.caption(args).split()), name, source(run.folder))


def source(folder: Path) -> str:
    """Return a digest of a run's rows: figures of the page say in their metadata what they were drawn from."""
    return sha256((folder / _FILES[0]).read_bytes()).hexdigest()[:16]


def _runs(place: Path, experiments: Mapping[str, Experiment]) -> dict[str, _Run]:
    """Finished runs by folder: an experiment whose folder is named after its arguments may have several."""
    found = {}
    for name in experiments:
        for folder in (place / name, *sorted(place.glob(f"{name}-*"))):
            if not (folder / _FILES[0]).is_file():
                continue
            if not (folder / _FILES[1]).is_file():
                raise PublishingError(f"{folder} lacks {_FILES[1]}: run the experiment again")
            about = json.loads((folder / _FILES[1]).read_text(encoding="utf-8"))
            if about.get("made", {}).get("experiment") == name:  # not that of an experiment with a longer name
                found[folder.name] = _Run(folder, pd.read_csv(folder / _FILES[0]), about)
    return found


def _arguments(experiment: Experiment, about: Mapping[str, Any]) -> Any:
    """The arguments of a run, as they were: JSON has lists for tuples.

    An argument that the experiment has got since then has the default with which it behaves as before.
    """
    kind = type(experiment.presets["quick"])
    hints, given = typing.get_type_hints(kind), about["arguments"]
    if unknown := set(given) - {field.name for field in fields(kind)}:
        raise PublishingError(
            f"arguments of {experiment.name} have changed ({', '.join(sorted(unknown))}): run it again"
        )
    return kind(**{k: tuple(v) if typing.get_origin(hints[k]) is tuple else v for k, v in given.items()})


def _further(run: _Run, name: str) -> dict[str, Path]:
    """Further pictures of a run by their names in the docs."""
    return {f"{name}-{path.name}": path for path in run.folder.glob("*.png") if path.name != "figure.png"}


def _there(page: Path, name: str, runs: Mapping[str, _Run]) -> list[str]:
    """Further pictures of a run that are in the docs already; those of another run may begin with its name."""
    others = tuple(f"{other}" for other in runs if other != name and other.startswith(name))
    found = (path.name for path in page.parent.glob(f"figures/{name}-*.png"))
    return [picture for picture in found if not picture.startswith(others)]

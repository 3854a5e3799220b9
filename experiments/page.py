"""Put figures, verdicts and commands of finished runs between the marks of a Markdown page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.files import write_atomically

__all__ = ["PublishingError", "publish"]


class PublishingError(ValueError):
    """Nothing was published; the message says what is missing."""


def publish(out: Path, page: Path, names: Sequence[str]) -> list[str]:
    """Fill ``<!-- begin NAME -->`` to ``<!-- end NAME -->`` of each finished run; return the names filled.

    Figures are copied into ``figures`` beside the page. Everything is read before anything is written, so that a
    figure never stands beside the verdict of another run.
    """
    if not page.is_file():
        raise PublishingError(f"there is no page {page}: run this from the repository, or name one with --page")
    text, figures, done = page.read_text(encoding="utf-8"), {}, []
    for name in names:
        folder = out / name
        if not (folder / "verdict.md").exists():
            continue
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise PublishingError(f"{page} has no marks {begin} and {end} to put {name} between")
        if missing := [f for f in ("args.json", "figure.png") if not (folder / f).is_file()]:
            raise PublishingError(f"{folder} lacks {', '.join(missing)}: run the experiment again")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{_body(folder, name)}\n{end}{after}"
        figures.update({copy: picture.read_bytes() for picture, copy in _pictures(folder, name).items()})
        done.append(name)
    if not done:
        raise PublishingError(f"no finished run of {', '.join(names) or 'any experiment'} in {out}")
    for copy, data in figures.items():
        write_atomically(page.parent / "figures" / copy, partial(_write, data=data))
    write_atomically(page, lambda path: path.write_text(text, encoding="utf-8"))
    return done


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _body(folder: Path, name: str) -> str:
    command = json.loads((folder / "args.json").read_text(encoding="utf-8"))["command"]
    verdict = (folder / "verdict.md").read_text(encoding="utf-8").strip()
    shown = "\n\n".join(f"![{Path(copy).stem}](figures/{copy})" for copy in _pictures(folder, name).values())
    return f"```sh\n{command}\n```\n\n{shown}\n\n{verdict}"


def _pictures(folder: Path, name: str) -> dict[Path, str]:
    """Names of a run's figures in the docs: the run's name, with their own name behind it for the further ones."""
    further = sorted(path for path in folder.glob("*.png") if path.name != "figure.png")
    return {folder / "figure.png": f"{name}.png", **{path: f"{name}-{path.name}" for path in further}}

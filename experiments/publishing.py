"""Put figures, captions, verdicts and commands of finished runs between the marks of a Markdown page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.files import write_atomically

__all__ = ["publish"]


def publish(out: Path, page: Path, names: Sequence[str]) -> Iterator[str]:
    """Fill ``<!-- begin NAME -->`` to ``<!-- end NAME -->`` of each finished run; yields the names that were.

    Its figures are copied into ``figures`` beside the page, so that the page says what the last run said and no more.
    """
    text = page.read_text(encoding="utf-8")
    for name in names:
        folder = out / name
        if not (folder / "verdict.md").exists():
            continue
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise ValueError(f"{page} has no marks {begin} and {end} to put {name} between")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{_body(folder, name)}\n{end}{after}"
        figures = page.parent / "figures"
        figures.mkdir(exist_ok=True)
        for picture, copy in _pictures(folder, name).items():
            shutil.copyfile(picture, figures / copy)
        yield name
    write_atomically(page, lambda path: path.write_text(text, encoding="utf-8"))


def _body(folder: Path, name: str) -> str:
    command = json.loads((folder / "args.json").read_text(encoding="utf-8"))["command"]
    verdict = (folder / "verdict.md").read_text(encoding="utf-8").strip()
    shown = "\n\n".join(f"![{Path(copy).stem}](figures/{copy})" for copy in _pictures(folder, name).values())
    return f"```sh\n{command}\n```\n\n{shown}\n\n{verdict}"


def _pictures(folder: Path, name: str) -> dict[Path, str]:
    """What each figure of a run is called in the docs: after the run, the further ones with their own name behind."""
    further = sorted(path for path in folder.glob("*.png") if path.name != "figure.png")
    return {folder / "figure.png": f"{name}.png", **{path: f"{name}-{path.name}" for path in further}}

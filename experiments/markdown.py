"""The form of a verdict in Markdown: a bold sentence, a small table, at most three sentences, details folded away."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["table", "verdict"]

_WIDTH = 120
_MOST = 3  # sentences that a reader sees without unfolding


def verdict(finding: str, numbers: str, sentences: Sequence[str], details: Sequence[str] = ()) -> str:
    """Compose a verdict.

    Arguments:
        finding: one sentence without its full stop, shown in bold.
        numbers: a table, made by :func:`table`.
        sentences: at most three; empty ones are left out.
        details: further paragraphs, list items (beginning with ``*``) and tables, to be folded away.
    """
    shown = [sentence for sentence in sentences if sentence]
    if len(shown) > _MOST:
        raise ValueError(f"{len(shown)} sentences, but a verdict has at most {_MOST}: fold the others away")
    parts = [_wrapped(f"**{finding}.**"), numbers, _wrapped(" ".join(shown))]
    if folded := [_wrapped(detail) for detail in details if detail]:
        parts += ["<details><summary>Details</summary>", *_lists(folded), "</details>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out cells as a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _lists(blocks: Sequence[str]) -> list[str]:
    """Put list items that follow each other into one block."""
    found: list[str] = []
    for block in blocks:
        if found and block.startswith("* ") and found[-1].startswith("* "):
            found[-1] += f"\n{block}"
        else:
            found.append(block)
    return found


def _wrapped(text: str) -> str:
    """Break lines at 120 characters; tables stay as they are."""
    if text.startswith("|"):
        return text
    indent = "  " if text.startswith("* ") else ""
    words = " ".join(text.split())
    return textwrap.fill(words, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

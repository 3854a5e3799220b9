"""Markup: any text made harmless, and a small card that values show of themselves in notebooks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

__all__ = ["card", "esc"]

_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # these make text read in another order
_UNPRINTABLE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{_TURNING}]")


def esc(text: object) -> str:
    """Escape any text for content or an attribute; characters that no page may hold are replaced.

    >>> esc('<b>"')
    '&lt;b&gt;&quot;'
    """
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(text)), quote=True)


def card(title: str, rows: Iterable[tuple[str, str]], remarks: Iterable[str] = ()) -> str:
    """Return a value as HTML: a title, names with what they are, and remarks; all of it is escaped.

    >>> card("Estimate", [("value", "1 < 2")])
    '<div><strong>Estimate</strong><table><tr><th scope="row">value</th><td>1 &lt; 2</td></tr></table></div>'
    """
    lines = "".join(f'<tr><th scope="row">{esc(name)}</th><td>{esc(text)}</td></tr>' for name, text in rows)
    said = "".join(f"<li>{esc(text)}</li>" for text in remarks)
    table, items = f"<table>{lines}</table>" if lines else "", f"<ul>{said}</ul>" if said else ""
    return f"<div><strong>{esc(title)}</strong>{table}{items}</div>"

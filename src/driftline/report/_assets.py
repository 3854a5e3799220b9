"""Assets: the style and the script of the page, which a server hands out as they are and the page holds inside."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from driftline._plotting import COLORS

__all__ = ["script", "stylesheet"]

_BLUE, _VERMILION, _GREEN, _ORANGE, _SKY = (COLORS[k] for k in (0, 1, 2, 3, 5))

_VARIABLES = f"""
:root {{
  color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --ink: #1a1d21; --soft: #5a626b; --faint: #e3e6ea; --rule: #c9ced4;
  --line: {_BLUE}; --band: {_BLUE}2e; --alarm: {_VERMILION}; --warning: {_ORANGE}; --good: {_GREEN};
  --alarm-ink: #a34700; --warning-ink: #7d5600; --good-ink: #00694d; --waiting-ink: #4c545c;
  --alarm-wash: #fdf0e8; --warning-wash: #fdf5e3; --good-wash: #e9f6f1; --waiting-wash: #eef0f2;
  --then: #7f8a96; --then-fill: #7f8a9640; --now: {_VERMILION}; --now-fill: {_VERMILION}24; --skipped: #8892a026;
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{
    --page: #121416; --card: #1a1d21; --ink: #e8eaed; --soft: #a3abb4; --faint: #2b3036; --rule: #444b53;
    --line: {_SKY}; --band: {_SKY}30; --alarm: #f0701a; --warning: {_ORANGE}; --good: #1fb98b;
    --alarm-ink: #ff9d5c; --warning-ink: #f2bd4b; --good-ink: #4fd1a9; --waiting-ink: #b3bac2;
    --alarm-wash: #33200f; --warning-wash: #2e250f; --good-wash: #10291f; --waiting-wash: #23272c;
    --then: #97a2ae; --then-fill: #97a2ae40; --now: #f0701a; --now-fill: #f0701a2b; --skipped: #97a2ae24;
  }}
}}
"""


@cache
def stylesheet() -> str:
    """Return the style of a report's fragments, as CSS; the same for every run.

    >>> "prefers-color-scheme" in stylesheet()
    True
    """
    return _VARIABLES.lstrip() + _asset("report.css")


@cache
def script() -> str:
    """Return the script of a report's fragments: ``driftline.enhance(root)`` may be called again after a swap.

    Without it everything is there to read; with it charts answer the pointer and keys, and columns sort and search.

    >>> "enhance" in script()
    True
    """
    return _asset("charts.js") + _asset("report.js")


def _asset(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")

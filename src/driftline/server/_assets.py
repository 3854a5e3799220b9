"""Assets: style and script of the pages, from this package and from the report, each under a name with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from driftline.report import script, stylesheet

__all__ = ["Asset", "assets", "links"]

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """A file that pages load: its bytes, its type, and the address that changes with its content."""

    content: bytes
    kind: str
    address: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the assets by name."""
    own = files("driftline.server") / "assets"
    texts = {
        "report.css": stylesheet(),
        "dashboard.css": (own / "dashboard.css").read_text(encoding="utf-8"),
        "report.js": script(),
        "dashboard.js": (own / "dashboard.js").read_text(encoding="utf-8"),
    }
    return {name: _asset(name, text.encode()) for name, text in texts.items()}


def _asset(name: str, content: bytes) -> Asset:
    mark = hashlib.sha256(content).hexdigest()[:12]
    return Asset(content, _KINDS[name.rpartition(".")[2]], f"/assets/{name}?v={mark}")


@cache
def links() -> str:
    """Return the elements of a page's head that load all assets, the report's first."""
    found = assets().items()
    styles = (f'<link rel="stylesheet" href="{asset.address}">' for name, asset in found if name.endswith(".css"))
    scripts = (f'<script src="{asset.address}" defer></script>' for name, asset in found if name.endswith(".js"))
    return "".join([*styles, *scripts])

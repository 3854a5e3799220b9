"""Opening of sources: arguments that cannot be used are a clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftline.sources import SourceError, open_source


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_not_a_path(path: str) -> None:
    with pytest.raises(SourceError, match="is not a path"):
        open_source(path)


@pytest.mark.parametrize("poll", [0, -1, float("nan"), "1"])
def test_poll_must_be_a_number_of_seconds(tmp_path: Path, poll: Any) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(SourceError, match="poll="):
        open_source(tmp_path / "a.csv", poll=poll)


def test_an_unknown_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(SourceError, match="format='xml' is unknown"):
        open_source(tmp_path / "a.csv", format="xml")

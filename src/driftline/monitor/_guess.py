"""A guess at the length of windows, where nobody says it: from the rows there are and the columns they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from driftline._errors import Option, OptionError
from driftline._wording import counted
from driftline.monitor._advance import fit_encoder
from driftline.monitor._novelty import constants
from driftline.monitor._settings import Settings
from driftline.monitor._sizes import guessed, need
from driftline.sources import Source

__all__ = ["Guess", "guess_window"]

_LOOK = 100_000  # rows that are counted at most: with more, the guess is the same


class Guess(NamedTuple):
    """Rows of a window, and where the number comes from, in a sentence."""

    window: int
    sentence: str


def guess_window(source: Source, given: Mapping[str, Any], windows: int = 2) -> Guess:
    """Guess how many rows a window should have.

    Arguments:
        source: source whose rows can be read again, and that ends.
        given: settings of the run, without those of its windows.
        windows: number of windows that there must be rows for.

    >>> import pyarrow as pa
    >>> from driftline.sources import open_source
    >>> guess_window(open_source(pa.table({"x": [0.5 * (k % 97) for k in range(20_000)]})), {}).window
    1000
    """
    settings, rows, least = Settings.uncut(given), 0, 0
    for batch in source.batches():
        if not rows and batch.table.num_rows:
            encoder = fit_encoder(batch.rows, settings)
            varying = need(settings, encoder, constants(encoder.names, encoder.transform(batch.rows).values))
            least = varying.rows
        rows += batch.table.num_rows
        if rows >= _LOOK:
            break
    about = f"{counted(rows, 'row')} or more" if rows >= _LOOK else counted(rows, "row")
    size = guessed(rows, least, windows) if rows else None
    if size is None:
        many = f"a window needs {least:,}, and {counted(windows, 'window')} or more are needed"
        raise OptionError(
            "{source} has {rows}, too few to cut into windows{many}: wait for more rows, watch fewer columns "
            "({columns}), or compare two files with `driftline compare`",
            source=source.name,
            rows=about,
            many=f" ({many})" if rows else "",
            columns=Option("columns"),
        )
    why = f"a guess from {about} and {counted(varying.columns, 'encoded column')}"
    return Guess(size, f"windows of {counted(size, 'row')}: {why}")

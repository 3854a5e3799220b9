"""Guides: the settings of a run, and how to read its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from driftline._wording import measure, number, percent, unit
from driftline.monitor import Run, Settings
from driftline.report._svg import Markup, esc, tag
from driftline.report._timelines import cadence

__all__ = ["guide", "settings"]

_MEANING = {
    "reverse_kl": "the mean log of how much more likely a current row is now than it was then",
    "kl": "the mean log of how much more likely a row of the original was then than it is now",
}


def settings(run: Run) -> Markup:
    """List the settings that define the run."""
    pairs = [("source", run.source), ("tracker file", run.path), ("created", run.created)]
    for key, value in run.settings.to_dict().items():
        if value is not None and value != []:
            pairs.append((key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    skipped = run.encoder.get("skipped")
    if isinstance(skipped, dict):
        pairs += [(f"not watched: {column}", str(why)) for column, why in skipped.items()]
    return _folded("Settings of the run", pairs)


def guide(run: Run) -> Markup:
    """Explain how to read the numbers."""
    chosen = run.settings
    length = cadence(chosen)
    entries = [
        ("divergence", _divergence(chosen)),
        (
            "interval",
            f"Holds the true value in {percent(chosen.level)} of cases, with the noise of all windows on the way. "
            "It does not cover what the model cannot express.",
        ),
        (
            "tolerance",
            f"Drift that does not matter: {number(chosen.tolerance)}{unit(chosen.divergences[0])}, chosen when the "
            "run began.",
        ),
        (
            "alarm",
            "Raised where the value is higher than chance would explain for drift at the tolerance. A stream that "
            f"stays there raises a false one in {number(chosen.run_length)} windows on average. The limit lies above "
            "the tolerance by the noise of that window. An abrupt change from one window to the next raises an alarm "
            "too.",
        ),
        (
            "column",
            "A column is named if its own distribution moved, and a pair if both relate otherwise: by tests of counts "
            "that name anything in a quiet window as rarely as an alarm is false. A column's nats are its own; those "
            "of columns that move together do not add up.",
        ),
        (
            "window",
            f"{length[0].upper()}{length[1:]}. Each is compared with the one before and the comparisons are added up, "
            "so that the original itself need not be kept.",
        ),
    ]
    return _folded("How to read the numbers", entries)


def _divergence(chosen: Settings) -> str:
    kind = chosen.divergences[0]
    text = f"How different current rows are from those of the original: {measure(kind)}"
    if kind in _MEANING:
        text += (
            f", {_MEANING[kind]}. One normal column that moves by 1 standard deviation is 0.5 nats away, by 2 it is 2"
        )
    return (
        f"{text}. 0 means no drift. Noise is subtracted, so that without drift the value scatters around 0; one below "
        "is shown as 0."
    )


def _folded(title: str, pairs: Sequence[tuple[str, str]]) -> Markup:
    entries = "".join(tag("dt", esc(name)) + tag("dd", esc(text)) for name, text in pairs)
    return tag("details", tag("summary", esc(title)), tag("dl", entries))

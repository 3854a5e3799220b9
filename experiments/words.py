"""Numbers and lists as captions and verdicts put them into words."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

__all__ = ["capitalised", "counted", "every", "listed", "mean_spread", "span"]


def counted(count: int, noun: str) -> str:
    """Count things: 1 seed, 2 seeds."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def every(count: int, noun: str) -> str:
    """Name all things of a kind: the one seed, both seeds, all 3 seeds."""
    return f"the one {noun}" if count == 1 else f"both {noun}s" if count == 2 else f"all {count} {noun}s"


def listed(items: Iterable[str], separator: str = ", ") -> str:
    """Join items, or say that there are none."""
    return separator.join(items) or "none"


def mean_spread(values: pd.Series, digits: int, *, ddof: int = 1) -> str:
    """Mean ± standard deviation over seeds; the mean alone for one seed, no number if a seed was lost."""
    if values.isna().any() or values.empty:
        return "no number"
    spread = f" ± {values.std(ddof=ddof):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def span(values: pd.Series) -> str:
    """Least and largest of whole numbers: 100 to 253; one number if they are the same."""
    low, high = int(values.min()), int(values.max())
    return f"{low}" if low == high else f"{low} to {high}"


def capitalised(text: str) -> str:
    """Begin with a capital letter and leave the rest as it is."""
    return text[:1].upper() + text[1:]

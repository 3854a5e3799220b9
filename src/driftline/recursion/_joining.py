"""Features that join after a step of which no rows are kept: with all of their drift, from the window at hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline.fitting import LogLinear, LogLinearDesign
from driftline.inference import Dependence
from driftline.recursion._candidates import Candidates, Found, means_of, tested, widened_by
from driftline.recursion._recall import tilted_to
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor

__all__ = ["Joined", "joined", "most_joined"]

_ROUNDS = 4  # rounds of adding features in one step
_KEPT = 0.55  # share of the window's effective rows that a tilt leaves, at least: beyond, it rests on the tails
_ROWS_PER_FEATURE = 20.0  # effective rows of the window: later windows of its size are then not too few for sums


class Joined(NamedTuple):
    """An anchor after features have joined, what they are in words, and what is hidden, see :class:`Found`.

    ``left`` is the number of candidates that have moved and did not join: the ratio lacks their drift.
    """

    anchor: Anchor
    note: str = ""
    hidden: float = 0.0
    spread: float = 0.0
    left: int = 0


def most_joined(columns: int) -> int:
    """Return how many features may ever join: the file grows with the square of their number."""
    return max(4, 2 * columns)


def joined(anchor: Anchor, candidates: Candidates, depend: Dependence, settings: StepSettings) -> Joined:
    """Let features join that a window's rows, which are at hand, call for: as many rounds as it takes.

    The ratio is tilted until the weighted window has the original's means of them, so they hold all drift since the
    original. The step itself was fitted without them. A tilt that goes too far is not made: nothing joins then, and
    nothing wrong is built upon.
    """
    errors, notes, before = anchor.uncertainty, list[str](), anchor
    if errors is None or not candidates.rows or errors.slack < inference.LEAST_SLACK:
        return Joined(anchor)
    found = _tested(anchor, candidates, depend)
    for _ in range(_ROUNDS):
        fitting = _fitting(found, anchor, candidates, depend)
        wider = _wider(anchor, candidates, fitting, settings) if fitting.any else None
        if wider is None or _too_far(before, wider):
            break
        notes.append(f"added {len(fitting.pairs)} products, {len(fitting.hinges)} hinges")
        anchor = wider
        found = _tested(anchor, candidates, depend)
    return Joined(anchor, "; ".join(notes), found.hidden, found.spread, found.left)


def _tested(anchor: Anchor, candidates: Candidates, depend: Dependence) -> Found:
    """Say which candidates the ratio of an anchor does not hold."""
    psi, errors = anchor.psi, anchor.uncertainty
    assert isinstance(psi, LogLinear)
    assert errors is not None
    return tested(candidates, psi, anchor.own_design(), anchor.on_window(), errors.mean, depend)


def _too_far(before: Anchor, after: Anchor) -> bool:
    """Say whether tilts rest on so few rows of the window that they are not to be trusted.

    Where a correlation of 0 jumps to more than about 0.5, the ratio has no variance: the tails of the new window do not
    hold the original's mean, and a tilt that reaches it anyway is far too large.
    """
    left, whole = (inference.effective_sample_size(anchor.on_window()) for anchor in (after, before))
    return left < _KEPT * whole


def _fitting(found: Found, anchor: Anchor, candidates: Candidates, depend: Dependence) -> Found:
    """Return those for which there is room, products first."""
    psi = anchor.psi
    assert isinstance(psi, LogLinear)
    known = set(candidates.columns.tolist())
    columns = np.abs(psi.features.weight).argmax(0) if len(psi.features.bias) else np.zeros(0)
    here = len(psi.features.pairs) + sum(int(j) in known for j in columns)
    room = int(depend.effective(anchor.size) / _ROWS_PER_FEATURE) - psi.features.size - 1
    room = max(0, min(room, most_joined(psi.features.columns) - here))
    pairs = found.pairs[:room]
    return found._replace(pairs=pairs, hinges=found.hinges[: room - len(pairs)])


def _wider(anchor: Anchor, candidates: Candidates, found: Found, settings: StepSettings) -> Anchor | None:
    """Return the anchor with further features; None if too few rows of the window are like those of the original."""
    psi, errors, before = anchor.psi, anchor.uncertainty, anchor.own_design()
    assert isinstance(psi, LogLinear)
    assert errors is not None
    features = widened_by(candidates, found, psi, before.z)
    old = psi.features.positions(features)
    new = np.setdiff1d(np.arange(features.size), old)
    means, design = means_of(candidates, psi, features, new), LogLinearDesign(features, before.z)
    tilted = tilted_to(anchor, design, means, settings.ridge)
    if tilted is None:
        return None
    assert tilted.uncertainty is not None
    whole = inference.padded(tilted.uncertainty, old, features.size + 1)
    tilted = tilted._replace(uncertainty=whole, design=design, known=None)
    return tilted._replace(known=tilted.on_window())

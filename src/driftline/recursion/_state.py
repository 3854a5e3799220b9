"""The state that the recursion carries: for each original its anchor, psi and window, and nothing that grows with t."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from driftline._codec import Kinds
from driftline._inputs import Floats
from driftline.fitting import Design, FitInfo, LogLinear, LogLinearDesign, Psi, Stacked, log_mean_exp
from driftline.inference import NO_GAIN, Dependence, Doubt, Forward, Gain, Uncertainty, Wide
from driftline.recursion._auditor import Auditor
from driftline.recursion._evidence import Evidence
from driftline.recursion._kept import Readings, Sums
from driftline.recursion._partitions import Partitions
from driftline.recursion._settings import StepSettings
from driftline.recursion._sides import Seen

__all__ = ["Anchor", "State", "Step", "Track", "arrive", "has_past", "track_of"]


class Anchor(NamedTuple):
    """Starting point of a step: psi, its normaliser c, and the window they belong to. log r = psi - c.

    ``lag`` is the number of distinct rows over which neighbours in the window depend on each other. ``design`` is that
    of the window, ``known`` the log-ratio of its rows, ``rows`` how they depend on each other and ``seen`` what the
    auditor needs of them, if a step has made them: they follow from the rest and are not stored. ``crossed`` are values
    of learned features for rows of the window that they were learned from, see
    :class:`~driftline.fitting.LogLinearDesign`. Where rows are few for the features, ``wide`` and ``wide_step`` are
    kept instead of ``uncertainty``: of all steps, and of the last one alone. With ``sums``, which are kept instead of
    rows, the window is empty.
    """

    psi: Annotated[Psi, Kinds("driftline.fitting", "LogLinear", "Network")]
    log_normalizer: float
    window: Annotated[Floats, "N D"]
    uncertainty: Uncertainty | None = None
    evidence: Evidence | None = None
    lag: int = 0
    forward: Forward = Forward()
    crossed: Annotated[Floats | None, "N k"] = None
    wide: Wide | None = None
    wide_step: Wide | None = None
    auditor: Auditor | None = None
    sums: Sums | None = None
    design: Annotated[Design | None, "derived"] = None
    known: Annotated[Floats | None, "derived"] = None
    rows: Annotated[Dependence | None, "derived"] = None
    seen: Annotated[Seen | None, "derived"] = None

    def check(self) -> None:
        """Refuse a window without rows, unless there are sums, and parts that do not fit each other."""
        if (len(self.window) > 0) is (self.sums is not None) or not self.window.shape[1]:
            raise ValueError(f"window has the shape {self.window.shape}")
        if self.lag < 0:
            raise ValueError(f"lag is {self.lag}")
        errors, psi = self.uncertainty, self.psi
        if errors is not None and isinstance(psi, LogLinear):
            known = len(errors.mean), len(errors.known), *errors.origin.shape, len(errors.origin_spread)
            p = psi.features.size
            if known != (p, p, p + 1, p + 1, p + 1):
                raise ValueError(f"uncertainty does not have the shapes of {p} features")
        functions = 0 if self.auditor is None else len(self.auditor.mean)
        if self.sums is not None and len(self.sums.watched) not in (0, functions):
            raise ValueError(f"sums has {len(self.sums.watched)} means of the auditor's functions")

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out of pickles, too, what follows from the rest: it takes more room than the window."""
        return type(self), tuple(self._replace(design=None, known=None, rows=None, seen=None))

    @property
    def size(self) -> int:
        """Number of rows in the window, whether they are kept or not."""
        return len(self.window) if self.sums is None else int(self.sums.moments.rows)

    def log_ratio(self, x: Floats) -> Floats:
        """Return log original/current of raw rows (n, D)."""
        return self.psi(x) - self.log_normalizer

    def on_window(self) -> Floats:
        """Return log original/current of the window's own rows, (n,)."""
        if self.known is not None:
            return self.known
        if not isinstance(self.psi, LogLinear):
            return self.log_ratio(self.window)
        design = self.own_design()
        out = design.dot(np.append(self.psi.coef, -self.log_normalizer))
        if self.psi.summaries is not None:
            out += self.psi.summaries(self.psi.standardizer.original(design.z))
        return out

    def own_design(self) -> LogLinearDesign:
        """Return the design of the window: the one that the step made, or a new one after loading."""
        if isinstance(self.design, LogLinearDesign):
            return self.design
        assert isinstance(self.psi, LogLinear)
        return LogLinearDesign(self.psi.features, self.psi.standardizer(self.window), self.crossed)


class Step(NamedTuple):
    """Result of a step: the anchor it arrives at, the fit, and the normalised log step ratio on both windows.

    ``telescoped`` is the normaliser of psi that the step before it and this step's constant add up to. ``missed``
    counts features that joined without their drift before this step.
    """

    anchor: Anchor
    fit: FitInfo
    log_num: Floats
    log_den: Floats
    telescoped: float
    parameters: int
    note: str = ""
    missed: int = 0

    @property
    def divergence(self) -> float:
        """KL(window‖window of the previous anchor) in nats, by the step ratio."""
        return float(-self.log_den.mean())


class Track(NamedTuple):
    """Track of one original: the anchor its next step starts from, and the current one, which users ask about.

    ``step_log_ratio`` is the last step's normalised log-ratio on the current window, (n,); empty before the first step.
    ``held`` counts the windows for which the anchor has stayed. ``gain`` is what held-out rows of the last step say for
    a drift, ``partitions`` the counts of original and current window that bound the divergence from below. ``weak`` is
    the time of the first step that could not be measured, ``missed`` that of the first at which features joined without
    their drift so far, 0 if there is none. ``doubts`` are those of the last step. ``moved`` is the time of the last
    change of features, 0 if there was none, ``hidden`` the nats of drift that the new ones did not show, and ``fresh``
    whether no window has come since.
    ``readings`` are what was read while the window was at hand, where rows are not kept; ``large`` is the time of the
    first step too large for that.
    """

    tau: int
    anchor: Annotated[Anchor, "N P"]
    current: Annotated[Anchor, "N P"]
    step_log_ratio: Annotated[Floats, "n"]
    held: int
    gain: Gain = NO_GAIN
    partitions: Annotated[Partitions | None, "CELLS PAIRS"] = None
    weak: int = 0
    missed: int = 0
    doubts: tuple[Doubt, ...] = ()
    moved: int = 0
    hidden: float = 0.0
    fresh: bool = False
    readings: Readings | None = None
    large: int = 0

    def check(self) -> None:
        """Refuse a step of other rows than the window's, and a time that is none."""
        if len(self.step_log_ratio) not in (0, len(self.current.window)):
            raise ValueError(f"step_log_ratio has {len(self.step_log_ratio)} of {len(self.current.window)} entries")
        if min(self.tau, self.moved, self.held) < 0:
            raise ValueError(f"tau, moved and held are {self.tau}, {self.moved} and {self.held}")


class State(NamedTuple):
    """Tracks of all originals by name, and the time t. Nothing in it grows with t."""

    tracks: dict[str, Track]
    t: int

    def check(self) -> None:
        """Refuse a state of no original, and originals with the same number."""
        if not self.tracks:
            raise ValueError("it traces no original")
        if len({track.tau for track in self.tracks.values()}) < len(self.tracks):
            raise ValueError("two originals have the same number")


def arrive(
    anchor: Anchor,
    window: Floats,
    psi: Psi,
    constant: float,
    settings: StepSettings,
    rows: Dependence | None = None,
) -> Anchor:
    """Make the anchor after a step; its normaliser telescopes (c_t = c_{t-1} - constant) or is taken on the window."""
    lag = 0 if rows is None else rows.lag
    if settings.normalizer == "self":
        return Anchor(psi, float(log_mean_exp(psi(window))), window, lag=lag, rows=rows)
    return Anchor(psi, anchor.log_normalizer - constant, window, lag=lag, rows=rows)


def track_of(state: State, original: str | None = None) -> Track:
    """Return an original's track, that of the only one for None; raise an error if no quantity can be asked of it."""
    tracks = state.tracks
    if original is None:
        if len(tracks) > 1:
            raise ValueError(f"several originals are traced, name one of them: original={sorted(tracks)}")
        original = next(iter(tracks))
    if original not in tracks:
        raise ValueError(f"original {original!r} is unknown: choose one of {sorted(tracks)}")
    track = tracks[original]
    if isinstance(track.current.psi, Stacked) or (track.fresh and has_past(track.current)):
        # features that joined at the change were fitted to the very rows that would be asked, which reads too much
        raise ValueError(f"features of original {original!r} have changed: call partial_fit with its next window first")
    return track


def has_past(anchor: Anchor) -> bool:
    """Say whether a step has been taken: psi is no longer the zero it started as, or was held back to that."""
    psi = anchor.psi
    if anchor.wide is not None or anchor.uncertainty is not None:
        return True
    return not isinstance(psi, LogLinear) or bool(psi.coef.any())

"""The recursion: State, Info, start(), join(), step(). A state holds only what the next step needs.

``log r_t = log r_{s_t} + log r_{t-1}``: a step is ordinary ratio estimation between the window a track stands on
(numerator) and the new one (denominator). Static estimation is one step from the original.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from driftline.fitting import FitInfo, LogLinear, Network, Stacked, fit_standardizer, log_mean_exp
from driftline.inference import Forward, effective_sample_size, long_run_variance
from driftline.recursion._state import Position, Settings, Step, has_past, standardizer_of
from driftline.recursion._steps import initial, take

__all__ = ["Info", "OriginalInfo", "Policy", "State", "Track", "join", "restart", "start", "step"]


@dataclass(frozen=True)
class Policy:
    """When the reference window moves on. ``enough`` and ``too_much`` are nats of KL(current‖reference)."""

    kind: str = "every"
    enough: float = 0.3
    too_much: float = 3.0
    max_hold: int = 20


class Track(NamedTuple):
    """One original: the reference position (numerator of the next step) and the latest one (what users ask about).

    ``step_log_ratio`` is the last step's normalised log-ratio on the current window, (n,), empty before the first.
    """

    tau: int
    reference: Position
    current: Position
    step_log_ratio: Tensor
    held: int


class State(NamedTuple):
    """All tracks by name, and the time t. Nothing in it grows with t."""

    tracks: dict[str, Track]
    t: int


class OriginalInfo(NamedTuple):
    """What a step found out about one original.

    Attributes:
        rows: rows of the window.
        step_divergence: KL(window‖reference window) in nats.
        mean_ratio: mean of original/current on the window; 1 where weights can be trusted.
        step_mean_ratio: mean of the step ratio on the window; 1 where the step can be trusted.
        constraint_residual: the paper's constraint, 1 where it holds.
        effective_sample_size: Kish's size of the weights on the window.
        overlap: rows of both windows that the step could not tell apart, the data the fit really had.
        lag: how far rows of the window depend on their neighbours, as taken into account in errors; 0 for not at all.
        held_out: loss expected on new rows (network: validation split; convex: Takeuchi's correction).
        fit: how the fit went.
        advanced: whether the reference moved to this window.
        reason: of that choice, and of features added.
        warnings: why not to trust the estimate; empty if nothing speaks against it.
    """

    rows: int
    step_divergence: float
    mean_ratio: float
    step_mean_ratio: float
    constraint_residual: float
    effective_sample_size: float
    overlap: float
    lag: int
    held_out: float
    fit: FitInfo
    advanced: bool
    reason: str
    warnings: tuple[str, ...]


class Info(NamedTuple):
    """The time t after a step and what it found about each original that had a window."""

    t: int
    originals: dict[str, OriginalInfo]


def start(samples: Tensor, settings: Settings, name: str = "original") -> State:
    """Begin tracing: the original's samples are the first reference window."""
    return join(State({}, 0), name, samples, settings)


def join(state: State, name: str, samples: Tensor, settings: Settings) -> State:
    """A further original starts now; its standardisation is its own, frozen here."""
    position = initial(samples, fit_standardizer(samples), settings)
    track = Track(len(state.tracks), position, position, samples.new_zeros(0), 0)
    return state._replace(tracks={**state.tracks, name: track})


def step(state: State, windows: Mapping[str, Tensor], settings: Settings, policy: Policy) -> tuple[State, Info]:
    """Advance the named originals to their windows; the others stay where they are."""
    t = state.t + 1
    seed = (settings.seed * 1_000_003 + 7919 * t) % (2**31)
    taus = {name: state.tracks[name].tau for name in windows}
    heads = len(state.tracks)
    origin = {name: state.tracks[name].reference for name in windows}
    steps = take(origin, windows, taus, heads, settings, seed)
    passed: set[str] = set()
    if policy.kind == "adaptive":
        # a reference held too long: go by the window in between, from which this one is nearer
        passed = {
            name
            for name, s in steps.items()
            if _divergence(s) > policy.too_much and state.tracks[name].reference is not state.tracks[name].current
        }
        if passed:
            origin.update({name: state.tracks[name].current for name in passed})
            near = {name: windows[name] for name in passed}
            steps.update(take(origin, near, taus, heads, settings, seed))
    tracks, infos = dict(state.tracks), {}
    for name, taken in steps.items():
        track = state.tracks[name]
        advanced, reason = _decide(taken, policy, 0 if name in passed else track.held)
        if name in passed:
            reason = "step too large for the held reference, went by the previous window; " + reason
        arrived = taken.position._replace(window=_present(taken.position), forward=_forward(origin[name], taken))
        reference = arrived if advanced else origin[name]
        held = 0 if advanced else (1 if name in passed else track.held + 1)
        tracks[name] = Track(track.tau, reference, arrived, taken.log_den, held)
        told = "; ".join(filter(None, [reason, taken.note]))
        infos[name] = _diagnose(origin[name], taken, advanced, told, settings.names)
    return State(tracks, t), Info(t, infos)


def restart(state: State, references: Mapping[str, Tensor], settings: Settings) -> State:
    """Features have been replaced: each track stands on the same rows in the new ones, beside what they were.

    The next window of a track that has taken a step must hold both, the new columns first (:class:`Stacked`).
    """
    tracks = dict(state.tracks)
    for name, rows in references.items():
        track, standardizer = state.tracks[name], fit_standardizer(rows)
        before = track.current
        if has_past(before.psi):
            stacked = torch.cat([rows, before.window], 1)
            position = before._replace(psi=Stacked(standardizer, before.psi), window=stacked, evidence=None)
        else:
            position = initial(rows, standardizer, settings)
        tracks[name] = track._replace(reference=position, current=position, held=0)
    return state._replace(tracks=tracks)


def _present(position: Position) -> Tensor:
    """The window in the features that psi has; what was stacked beside them is not needed again."""
    width = standardizer_of(position.psi).mean.shape[0]
    return position.window if position.window.shape[1] == width else position.window[:, :width].contiguous()


def _forward(origin: Position, taken: Step) -> Forward:
    """KL(original‖current) after a step: what it was, and the original's mean of the step's log-ratio.

    That mean is over the window stood on, weighted by the ratio so far; in a first step over the original itself.
    """
    log_weights, before = origin.log_ratio(origin.window), origin.forward
    weights = torch.softmax(log_weights, 0)
    gain = float(weights @ taken.log_num)
    spread = long_run_variance(weights * (taken.log_num - gain), origin.lag)
    rows = min(before.rows, effective_sample_size(log_weights))
    return Forward(before.value + gain, before.variance + spread, rows)


def _divergence(taken: Step) -> float:
    return float(-taken.log_den.mean())


def _decide(taken: Step, policy: Policy, held: int) -> tuple[bool, str]:
    """Whether the reference moves on to this window, and why."""
    if policy.kind == "every":
        return True, ""
    size = _divergence(taken)
    # with fewer rows a step needs more signal to stand out: the divergence of a null step is about parameters/rows
    rows = min(taken.log_num.shape[0], taken.log_den.shape[0])
    noise = 4.0 * taken.parameters / rows if isinstance(taken.position.psi, LogLinear) else 0.0
    enough = min(max(policy.enough, noise), 0.5 * (policy.enough + policy.too_much))
    if size >= enough:
        return True, f"step of {size:.3g} nats is informative (at least {enough:.3g})"
    if held + 1 >= policy.max_hold:
        return True, f"reference held for {policy.max_hold} windows, the most allowed"
    return False, f"held: step of {size:.3g} nats, {enough:.3g} wanted"


def _diagnose(origin: Position, taken: Step, advanced: bool, reason: str, names: Sequence[str] | None) -> OriginalInfo:
    window = taken.position.window
    log_before = origin.log_ratio(window)
    log_r = taken.position.log_ratio(window)
    overlap = _overlap(taken.log_num, taken.log_den)
    # Psi_t / (Phi_t Psi_{t-1}) with psi and phi up to their constants, which cancel against the normalisers
    step_mean = log_mean_exp(taken.log_den)
    log_psi_now = log_mean_exp(taken.log_den + log_before)
    log_psi_before = log_mean_exp(origin.log_ratio(origin.window))
    residual = float((log_psi_now - step_mean - log_psi_before).clamp(-700, 700).exp())
    return OriginalInfo(
        rows=window.shape[0],
        step_divergence=_divergence(taken),
        mean_ratio=float(log_mean_exp(log_r).clamp(max=700).exp()),
        step_mean_ratio=float(step_mean.clamp(max=700).exp()),
        constraint_residual=residual,
        effective_sample_size=effective_sample_size(log_r),
        overlap=overlap,
        lag=taken.position.lag,
        held_out=taken.fit.held_out,
        fit=taken.fit,
        advanced=advanced,
        reason=reason,
        warnings=tuple(_doubts(origin, taken, overlap, names)),
    )


def _overlap(log_num: Tensor, log_den: Tensor) -> float:
    """Rows' worth of information for telling the samples apart: the sum of 4 P(num|x) P(den|x), at most all rows."""
    shift = math.log(log_num.shape[0] / log_den.shape[0])
    logits = torch.cat([log_num, log_den]) + shift
    return float((4.0 * torch.sigmoid(logits) * torch.sigmoid(-logits)).sum())


def _doubts(origin: Position, taken: Step, overlap: float, names: Sequence[str] | None) -> list[str]:
    """Reasons not to trust the step, in words a user can act on."""
    doubts = []
    if not taken.fit.converged:
        doubts.append(f"the fit did not converge ({taken.fit.message})")
    log_linear = isinstance(taken.position.psi, LogLinear)
    rows = min(taken.log_num.shape[0], taken.log_den.shape[0])
    total = taken.log_num.shape[0] + taken.log_den.shape[0]
    if log_linear and rows < 5 * taken.parameters:
        doubts.append(f"{rows} rows are few for {taken.parameters} parameters: enlarge the window")
    wanted = 10.0 * taken.parameters if log_linear else 200.0
    if overlap < min(wanted, 0.5 * rows):
        doubts.append(
            f"the two windows hardly overlap ({overlap:.0f} of {total} rows are informative, "
            f"step of {_divergence(taken):.3g} nats): take smaller steps"
        )
    else:
        ratio = taken.log_den.clamp(max=350).exp()
        error = float(ratio.std() / math.sqrt(len(ratio)))
        off = abs(float(ratio.mean()) - 1.0)
        if off > max(0.2, 5.0 * error):
            doubts.append(f"the step ratio averages {float(ratio.mean()):.3g} on the window instead of 1")
    doubts.extend(_outlier(origin, taken, names))
    moved = _moved_constants(origin, taken.position.window)
    if moved:
        columns = ", ".join(_label(j, names) for j in moved[:5])
        doubts.append(
            f"column(s) {columns} were constant in the original and are not now: the true ratio there is zero or "
            "infinite"
        )
    return doubts


def _label(column: int, names: Sequence[str] | None) -> str:
    return str(column) if names is None else repr(names[column])


def _outlier(origin: Position, taken: Step, names: Sequence[str] | None) -> list[str]:
    """One row that says more about the step than all others together do."""
    size = taken.log_den.abs()
    if len(size) < 50 or float(size.max()) <= 0.1 * float(size.sum()):  # both are 0 for a window that is the one before
        return []
    assert isinstance(origin.psi, LogLinear | Network | Stacked)
    row = int(size.argmax())
    z = origin.psi.standardizer(taken.position.window[row : row + 1])[0].abs()
    j = int(z.argmax())
    return [
        f"row {row} alone carries {float(size[row] / size.sum()):.0%} of the step: column {_label(j, names)} lies "
        f"{float(z[j]):.2g} standard deviations away from the original"
    ]


def _moved_constants(origin: Position, window: Tensor) -> list[int]:
    assert isinstance(origin.psi, LogLinear | Network | Stacked)
    standardizer = origin.psi.standardizer
    flat = standardizer.scale == 1.0
    if not bool(flat.any()):
        return []
    columns = len(standardizer.mean)
    small = 1e-9 * standardizer.mean.abs()
    after = ((window[:, :columns] - standardizer.mean).abs() > small).sum(0)
    return torch.nonzero(flat & (after > max(1, len(window) // 1000))).flatten().tolist()  # not a stray row

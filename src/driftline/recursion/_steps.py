"""Steps of the recursion: start, add an original, advance to the next window, replace features.

``log r_t = log r_{s_t} + log r_{t-1}``: a step is ordinary ratio estimation between the window of an anchor
(numerator) and the new one (denominator). Static estimation is one step from the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import numpy as np

from driftline._inputs import Floats
from driftline._overflow import quiet_overflow
from driftline._threads import limited_threads
from driftline.fitting import (
    LogLinear,
    Stacked,
    Standardizer,
    Summaries,
    find_repeats,
    fit_standardizer,
    softmax,
)
from driftline.inference import UNSUPPORTED, Dependence, Forward
from driftline.recursion._auditor import start_auditor
from driftline.recursion._by_sums import step_sums
from driftline.recursion._diagnostics import Info, diagnose
from driftline.recursion._doubts import WEAK, carried
from driftline.recursion._evidence import start_evidence
from driftline.recursion._floor import measured
from driftline.recursion._log_linear import log_linear_step, start_features, summary_of
from driftline.recursion._moving import Moved, moved
from driftline.recursion._rows import Curved, own_rows, reach
from driftline.recursion._settings import NEWTON_FEATURES, Policy, StepSettings, is_network
from driftline.recursion._state import Anchor, State, Step, Track, has_past
from driftline.recursion._summed import start_sums
from driftline.recursion._wide import crowded

__all__ = ["add_original", "restart", "start", "step"]

_SUMMARISED = 200  # rows; with fewer, shapes and clusters are guesses


def start(samples: Floats, settings: StepSettings, name: str = "original") -> State:
    """Begin tracing: the original's samples are the first anchor's window."""
    return add_original(State({}, 0), name, samples, settings)


@limited_threads()
@quiet_overflow()
def add_original(state: State, name: str, samples: Floats, settings: StepSettings) -> State:
    """Trace a further original from now on; its standardisation is its own, frozen here."""
    if settings.keep == "sums":
        return state._replace(tracks={**state.tracks, name: start_sums(samples, settings, len(state.tracks))})
    anchor = _first_anchor(samples, fit_standardizer(samples), settings)
    track = Track(len(state.tracks), anchor, anchor, np.zeros(0), 0)
    return state._replace(tracks={**state.tracks, name: track})


@limited_threads()
@quiet_overflow()
def step(state: State, windows: Mapping[str, Floats], settings: StepSettings, policy: Policy) -> tuple[State, Info]:
    """Advance the named originals to their windows; the others stay where they are."""
    t = state.t + 1
    if settings.keep == "sums":
        found = {name: step_sums(state.tracks[name], window, settings, t) for name, window in windows.items()}
        tracks = {**state.tracks, **{name: track for name, (track, _) in found.items()}}
        return State(tracks, t), Info(t, {name: info for name, (_, info) in found.items()})
    if any(state.tracks[name].anchor.sums is not None for name in windows):
        raise ValueError("keep='rows' cannot go on from sums, since no rows are there: begin again with fit")
    seed = (settings.seed * 1_000_003 + 7919 * t) % (2**31)
    anchors = {name: state.tracks[name].anchor for name in windows}
    steps = _take(state, anchors, windows, settings, seed)
    via: set[str] = set()  # anchor held too long: step via the window in between, which is nearer to this one
    if policy.kind == "adaptive":
        held = {name for name in windows if state.tracks[name].anchor is not state.tracks[name].current}
        via = {name for name in held if steps[name].divergence > policy.too_much}
        if via:
            anchors.update({name: state.tracks[name].current for name in via})
            steps.update(_take(state, anchors, {name: windows[name] for name in steps if name in via}, settings, seed))
    tracks, infos = dict(state.tracks), {}
    for name, taken in steps.items():
        track, anchor = state.tracks[name], anchors[name]
        advanced, reason = _decide(taken, policy, 0 if name in via else track.held)
        if name in via:
            reason = "step too large for the held anchor, stepped via the previous window; " + reason
        depend = own_rows(anchor, settings), own_rows(taken.anchor, settings)
        if advanced and _stumbles(anchor, taken, *depend):
            advanced, reason = (
                False,
                "held: rows of this window are too few or too dependent for a step to start from",
            )
        taken = taken._replace(anchor=taken.anchor._replace(known=taken.anchor.on_window()))
        arrived = _present(taken.anchor)._replace(forward=_forward(anchor, taken, settings))
        stayed = 0 if advanced else (1 if name in via else track.held + 1)
        reasons = "; ".join(filter(None, [reason, taken.note]))
        infos[name] = diagnose(anchor, taken, advanced, reasons, depend[1], settings.names)
        tracks[name] = Track(
            track.tau,
            arrived if advanced else anchor,
            arrived,
            taken.log_den,
            stayed,
            *measured(track, anchor, taken, *depend, settings),
            track.weak,
            track.missed or t * bool(taken.missed),
            infos[name].doubts,
            track.moved,
            track.hidden,
        )
        weak = any(doubt.code in WEAK for doubt in carried(tracks[name], of_step=True))
        tracks[name] = tracks[name]._replace(weak=track.weak or t * weak)
    return State(tracks, t), Info(t, infos)


@limited_threads()
@quiet_overflow()
def restart(state: State, windows: Mapping[str, Floats], settings: StepSettings) -> State:
    """Replace features: each anchor keeps its rows, in the new features.

    A log-linear ratio with error bars is expressed in these at once. Of any other the anchor holds the new features
    stacked beside the previous ones, and so must its next window, with the new columns first (:class:`Stacked`).
    """
    tracks = dict(state.tracks)
    for name, rows in windows.items():
        track, standardizer = state.tracks[name], fit_standardizer(rows)
        before = track.current
        found = _moved(before, rows, standardizer, settings, state.t)
        if found is not None:
            weak, missed = track.weak or state.t * found.weak, track.missed or state.t * found.missed
            track = track._replace(weak=weak, missed=missed, hidden=track.hidden + found.hidden)
            anchor = found.anchor
        elif has_past(before):
            stacked = np.concatenate([rows, before.window], 1)
            anchor = before._replace(
                psi=Stacked(standardizer, before.psi), window=stacked, evidence=None, design=None, known=None
            )._replace(wide=None, wide_step=None, auditor=None, rows=None, seen=None)
        else:
            anchor = _first_anchor(rows, standardizer, settings)
        tracks[name] = track._replace(anchor=anchor, current=anchor, held=0, partitions=None, moved=state.t, fresh=True)
    return state._replace(tracks=tracks)


def _moved(before: Anchor, rows: Floats, standardizer: Standardizer, settings: StepSettings, t: int) -> Moved | None:
    """Express an anchor in new features, where it has a log-linear ratio with error bars and rows suffice for them."""
    if before.uncertainty is None or not isinstance(before.psi, LogLinear) or is_network(settings.model):
        return None
    if settings.normalizer != "telescoped" or settings.penalty > 0.0:
        return None
    first = _first_anchor(rows, standardizer, settings)
    assert isinstance(first.psi, LogLinear)
    return None if crowded(first.psi.features.size, 2 * len(rows)) else moved(before, first, settings, t)


def _first_anchor(window: Floats, standardizer: Standardizer, settings: StepSettings) -> Anchor:
    """Return the anchor where tracing begins: psi = 0 on the original's own samples."""
    z, repeats = standardizer(window), find_repeats(window)
    copies = slice(None) if repeats is None else repeats.first
    summary = summary_of(z[copies], settings)
    if summary is not None and summary.scores is not None:
        standardizer = standardizer._replace(scores=summary.scores)
        z = standardizer(window)
    features = start_features(z[copies], settings.model, summary)
    if summary is not None and crowded(features.size, 2 * len(z[copies])):  # shapes and clusters are guesses, too
        summary, standardizer = None, standardizer._replace(scores=None)
        z = standardizer(window)
        features = start_features(z[copies], settings.model)
    screened = settings.model == "auto" and features.size < NEWTON_FEATURES
    evidence = start_evidence(z) if screened else None
    lag = reach(Curved(z), settings, repeats)
    summaries = None
    if summary is not None and summary.density.clustered:
        summaries = Summaries(summary.density, summary.density, float(len(z[copies])))
    psi = LogLinear(standardizer, features, np.zeros(features.size), summaries)
    anchor = Anchor(psi, 0.0, window, None, evidence, lag)
    rows = own_rows(anchor, settings)
    auditor = None
    if not is_network(settings.model) and features.size < NEWTON_FEATURES and len(z[copies]) >= _SUMMARISED:
        auditor = start_auditor(z, None if summary is None else summary.density, rows, seed=settings.seed)
    return anchor._replace(rows=rows, auditor=auditor)


def _take(
    state: State, anchors: Mapping[str, Anchor], windows: Mapping[str, Floats], settings: StepSettings, seed: int
) -> dict[str, Step]:
    """Take one step to each window, from the anchor with the same name.

    Networks are shared: one fit of the averaged objective. For log-linear models the average separates into one convex
    problem per original, solved one by one.
    """
    if not is_network(settings.model):
        return {name: log_linear_step(anchors[name], window, settings, seed) for name, window in windows.items()}
    from driftline.fitting import resolve_device, seeded  # these and networks need PyTorch
    from driftline.recursion._network import network_step

    taus = {name: state.tracks[name].tau for name in windows}
    device = resolve_device(settings.device)
    # modules by a factory draw their initial weights, and dropout, from the global generators
    with seeded(seed, device) if callable(settings.model) else nullcontext():
        return network_step(anchors, windows, taus, len(state.tracks), settings, seed)


def _present(anchor: Anchor) -> Anchor:
    """Return the anchor with its window in psi's own features; columns stacked beside them are not needed again."""
    width = anchor.psi.standardizer.mean.shape[0]
    if anchor.window.shape[1] == width:
        return anchor
    return anchor._replace(window=np.ascontiguousarray(anchor.window[:, :width]), rows=None, seen=None)


def _forward(anchor: Anchor, taken: Step, settings: StepSettings) -> Forward:
    """Return KL(original‖current) after a step: its value before, plus the original's mean of the step's log-ratio.

    That mean is over the anchor's window, weighted by the ratio so far; in a first step, over the original itself.
    """
    log_weights, before = anchor.on_window(), anchor.forward
    weights = softmax(log_weights)
    gain = float(weights @ taken.log_num)
    depend = own_rows(anchor, settings)
    spread = depend.spread(weights * (taken.log_num - gain))
    rows = min(before.rows, 1.0 / float(weights @ weights) / depend.worth)
    return Forward(before.value + gain, before.variance + spread, rows)


def _stumbles(anchor: Anchor, taken: Step, rows_num: Dependence, rows_den: Dependence) -> bool:
    """Say whether a window's rows are too few or dependent for a step to start from, and those of its anchor are not.

    Errors of such a step are unknown, and would be in all later values: these are measured from the window before.
    """
    errors = taken.anchor.uncertainty
    if errors is not None and errors.slack > UNSUPPORTED:
        return False
    size = 0 if errors is None else len(errors.bias)
    return rows_num.supports(len(anchor.window), size) and not rows_den.supports(len(taken.anchor.window), size)


def _decide(taken: Step, policy: Policy, held: int) -> tuple[bool, str]:
    """Decide whether the anchor moves on to this window, and say why."""
    if policy.kind == "every":
        return True, ""
    size = taken.divergence
    # with fewer rows, a step needs more signal to stand out: the divergence of a null step is about parameters/rows
    rows = float(min(taken.log_num.shape[0], taken.log_den.shape[0]))
    if taken.anchor.rows is not None:
        rows = min(rows, taken.anchor.rows.effective(taken.log_den.shape[0]))
    noise = 4.0 * taken.parameters / rows if isinstance(taken.anchor.psi, LogLinear) else 0.0
    enough = min(max(policy.enough, noise), 0.5 * (policy.enough + policy.too_much))
    if size >= enough:
        return True, f"step of {size:.3g} nats is informative (at least {enough:.3g})"
    if held + 1 >= policy.max_hold:
        return True, f"anchor held for {policy.max_hold} windows, the most allowed"
    return False, f"held: step of {size:.3g} nats, {enough:.3g} wanted"

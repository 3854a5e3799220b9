"""Quantities of a fitted ratio, with their errors: log-ratios, weights, divergences, attribution to columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from driftline import inference
from driftline.fitting import Design, LogLinear, Network, design_of, log_mean_exp
from driftline.inference import Attribution, Estimate, Generator, attribute, members
from driftline.recursion import Anchor, StepSettings, Track, has_past, reach

__all__ = ["Floats", "UntrustedEstimateWarning", "attribution", "divergence", "log_ratio", "weights"]

Floats = npt.NDArray[np.float64]

_HEAVY = ("kl", "pearson")  # divergences dominated by the few rows with the largest ratios
_CALLER = 5  # stack level: _warn, a function of this module, a method of the base class, a public method, its caller


class UntrustedEstimateWarning(UserWarning):
    """Warning that an estimate should not be relied on, for the reason given."""


def _warn(message: str, *, deeper: int = 0) -> None:
    """Warn where a public method was called; ``deeper`` counts further private functions in between."""
    warnings.warn(message, UntrustedEstimateWarning, stacklevel=_CALLER + deeper)


def _few(rows: float, log_r: Tensor) -> bool:
    """Say whether averages of ratios rest on so few effective rows that they cannot be trusted."""
    return rows < min(50.0, 0.1 * len(log_r))


def _warn_of_few(log_r: Tensor, what: str, advice: str) -> None:
    """Warn if averages of these ratios rest on few rows."""
    size = inference.effective_sample_size(log_r)
    if _few(size, log_r):
        _warn(f"{what} {size:.1f} of the {len(log_r)} rows (effective sample size): {advice}", deeper=1)


def log_ratio(current: Anchor, rows: Tensor, return_std: bool) -> Floats | tuple[Floats, Floats]:
    """Return log original/current of rows, (n,), and with ``return_std`` its standard errors, nan if unknown."""
    values = current.log_ratio(rows).cpu().numpy()
    if not return_std:
        return cast(Floats, values)
    design = None if current.uncertainty is None else design_of(current.psi, rows)
    if current.uncertainty is None or design is None:
        return values, np.full_like(values, np.nan)
    return values, inference.log_ratio_std(current.uncertainty, design).cpu().numpy()


def weights(current: Anchor, rows: Tensor) -> Floats:
    """Return importance weights of rows, with mean 1 on the current window."""
    on_window = current.log_ratio(current.window)
    _warn_of_few(on_window, "the weights rest on", "the original has moved too far away for reweighting")
    values = current.log_ratio(rows) - log_mean_exp(on_window)
    return cast(Floats, values.clamp(max=700.0).exp().cpu().numpy())


def divergence(
    track: Track,
    kind: str | Generator,
    level: float,
    *,
    of_step: bool,
    rows: Tensor | None = None,
    settings: StepSettings | None = None,
) -> Estimate:
    """Return an f-divergence between original and current or, with ``of_step``, between the windows of the last step.

    Arguments:
        rows: further rows of current, instead of its window.
        settings: settings of the lag of these rows.
    """
    current, own_window = track.current, rows is None
    rows = current.window if rows is None else rows
    if of_step and track.step_log_ratio.numel() == 0:
        raise ValueError("no step has been taken yet: call partial_fit with a window first")
    log_r = track.step_log_ratio if of_step else current.log_ratio(rows)
    psi, uncertainty = current.psi, current.uncertainty
    assert isinstance(psi, LogLinear | Network)
    design = None if uncertainty is None else design_of(psi, rows)
    if kind == "kl" and own_window and not of_step and isinstance(psi, LogLinear):
        return _forward_kl(current, log_r, design, level)
    if callable(kind) or kind in _HEAVY:
        advice = "too small in all likelihood; reverse_kl, js and hellinger do not depend on the largest ratios"
        _warn_of_few(log_r, "this divergence rests on", advice)
    if of_step and uncertainty is not None:
        uncertainty = inference.of_step(uncertainty)
    estimate = inference.divergence_estimate(
        log_r.cpu().numpy(),
        kind,
        level,
        uncertainty,
        design,
        own_window=own_window,
        lag=current.lag if settings is None else reach(psi.standardizer(rows), settings),
        shared=not of_step,
    )
    if np.isfinite(estimate.std_error) and np.isnan(estimate.noise) and kind != "total_variation":
        _warn(
            f"the noise of {kind!r} cannot be estimated, so it is not subtracted and the interval is rough: heavy "
            "tails, or too few rows"
        )
    return estimate


def _forward_kl(current: Anchor, log_r: Tensor, design: Design | None, level: float) -> Estimate:
    """Return KL(original‖current) of a log-linear ratio: from its constant if it can be, else summed over the steps."""
    psi, uncertainty, forward, logs = current.psi, current.uncertainty, current.forward, log_r.cpu().numpy()
    assert isinstance(psi, LogLinear)
    if uncertainty is not None and design is not None:
        constant = -current.log_normalizer
        exact = inference.forward_kl(psi.coef, constant, logs, level, uncertainty, design, current.lag)
        if exact is not None:
            return exact
    rows = min(forward.rows, inference.effective_sample_size(log_r))
    if _few(rows, log_r):
        _warn(
            f"'kl' rests on {rows:.1f} rows (effective sample size): the original is too far away; reverse_kl, js "
            "and hellinger do not depend on the largest ratios",
            deeper=1,
        )
    return inference.forward_along(forward, logs, level, uncertainty, design)


def attribution(
    current: Anchor, columns: Sequence[str | int], level: float, groups: Mapping[str, Sequence[str | int]] | None
) -> list[Attribution]:
    """Return the parts of columns, or of groups of them, in the symmetric divergence; largest first."""
    if not isinstance(current.psi, LogLinear) or current.uncertainty is None:
        why = "no step has been taken yet" if not has_past(current.psi) else "this model has no such parts"
        raise ValueError(
            f"the divergence cannot be attributed to columns: {why} (it needs a log-linear model, 'auto', "
            "'quadratic' or 'linear', with the telescoped normaliser, throughout)"
        )
    psi, design = current.psi, design_of(current.psi, current.window)
    assert design is not None
    log_r = current.log_ratio(current.window)
    if bool(inference.joined_later(psi.coef, current.uncertainty).any()):
        _warn_of_few(log_r, "features that joined later rest on", "their parts cannot be trusted")
    names = columns if groups is None else list(groups)
    belong = None if groups is None else members(groups, columns).to(log_r)
    found = attribute(psi.features, psi.coef, current.uncertainty, design, log_r, current.lag, level, belong)
    total = sum(max(e.value, 0.0) for e in found)
    parts = [
        Attribution(name, max(e.value, 0.0) / total if total > 0.0 else 0.0, e)
        for name, e in zip(names, found, strict=True)
    ]
    return sorted(parts, key=lambda part: -part.contribution.value)

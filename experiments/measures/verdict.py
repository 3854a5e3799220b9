"""What the paper says of the measures in its two demo experiments, held against the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.measures.cases import CLEAN, HALVES, NOISES
from experiments.measures.readings import DEFAULT, KLIEP, LINEAR, NONE

__all__ = ["of_halves", "of_noises", "verdict_of"]

_APART = 0.05  # of its level: by less, a measure does not tell the two cases apart,
_ERRORS = 2.0  # nor by less than so many standard errors
_FINITE = {"P half": ("kl", "js", "hellinger"), "Q half": ("reverse_kl", "js", "hellinger")}
_WORDS = {"fid": "FID", "kid": "KID", "kl": "KL(P‖Q)", "reverse_kl": "KL(Q‖P)", "js": "JS", "hellinger": "Hellinger²"}


def verdict_of(frame: pd.DataFrame) -> str:
    """A paragraph's two halves."""
    return f"{of_halves(frame)} {of_noises(frame)}"


def of_halves(frame: pd.DataFrame) -> str:
    """Whether each KL is smaller where it should be, in all runs, and whether FID and KID are the same."""
    part = frame[frame.case.isin(HALVES)]
    names = [name for name in (DEFAULT, KLIEP) if name in set(part.estimator)]
    seeds = part.seed.nunique()
    kept = {
        name: [_smaller(part, name, *where) for where in (("kl", "P half"), ("reverse_kl", "Q half"))] for name in names
    }
    right = [name for name in names if min(kept[name]) == seeds]
    gaps = {measure: _gap(part, measure) for measure in ("fid", "kid")}
    blind = not any(gap.told for gap in gaps.values())
    if not blind or not right:
        lead = "not confirmed"
    else:
        lead = "confirmed" if len(right) == len(names) else f"confirmed with {' and '.join(right)} only"
    said = "; ".join(
        f"{name} {_moved(part, name, 'kl')} (smaller with all in {kept[name][0]} of {seeds} runs) and "
        f"{_moved(part, name, 'reverse_kl')} (smaller with half in {kept[name][1]})"
        for name in names
    )
    told = ", ".join(f"{_WORDS[m]} {_moved(part, NONE, m)} ({gap.relative:.1%} apart)" for m, gap in gaps.items())
    off = ", ".join(f"{name} {_furthest(part, name)}" for name in names)
    return f"""**Half of the classes: {lead}.** The paper says that KL(P‖Q) prefers a Q with recall, KL(Q‖P) one with
    precision, and that FID and KID cannot tell. From Q with all classes to Q with half, KL(P‖Q) and KL(Q‖P) go: {said}.
    {told}: they {"cannot" if blind else "can"} tell (asked for: {_APART:.0%} and {_ERRORS:g} standard errors), being
    symmetric. KL(P‖Q) with all and KL(Q‖P) with half are {_truth(part, "P half", "kl"):.3f} in truth (the paper's
    KLIEP: 0.67, 2.38); the other two are infinite, their estimates only as large as sample and model allow. Furthest
    from a finite truth: {off}."""


def of_noises(frame: pd.DataFrame) -> str:
    """Which kind of noise each measure calls worse, in how many runs, for both readings of the paper."""
    part = frame[frame.case.isin((CLEAN, *NOISES))]
    names = [name for name in (DEFAULT, LINEAR, KLIEP) if name in set(part.estimator)]
    shared, own = (_reading(part, names, flag) for flag in (True, False))
    truth = [_truth(part, case, "kl") for case in list(NOISES)[:2]]
    floors = ", ".join(
        f"{name} {_mean(part, name, 'kl', CLEAN)}/{_mean(part, name, 'reverse_kl', CLEAN)}" for name in names
    )
    return f"""**Noise, the same pixels in all images: {shared[0]}; each image its own: {own[0]}.** The paper finds that
    FID and KID call 50 pixels in 10 % of the images worse, both KL 1 pixel in 50 %. True KL(P‖Q): {truth[0]:.3f} and
    {truth[1]:.3f}; KL(Q‖P) is infinite for both, its order the estimator's own. Same pixels:
    {shared[1]}. Own pixels: {own[1]}. Without noise, where both KL are 0, they read: {floors}."""


def _reading(part: pd.DataFrame, names: list[str], shared: bool) -> tuple[str, str]:
    """The claim's fate in a word, and the counts behind it.

    It is seen by an estimator if FID and KID call many pixels worse in all runs, both KLs few, and these stand above
    what they read without noise.
    """
    few, many = (case for case, noise in NOISES.items() if noise.shared == shared)
    seeds = part.seed.nunique()
    by = {m: _larger(part, NONE, m, many, few) for m in ("fid", "kid")}
    counts = {name: [_larger(part, name, m, few, many) for m in ("kl", "reverse_kl")] for name in names}
    found = {name: min(_larger(part, name, m, few, CLEAN) for m in ("kl", "reverse_kl")) for name in names}
    seen = [n for n in names if min(*by.values(), *counts[n], found[n]) == seeds]
    half = [n for n in names if counts[n][0] == seeds and _larger(part, n, "kl", few, CLEAN) == seeds]
    word = f"seen with {' and '.join(seen)}" if seen else "not seen"
    if not seen and half and by["fid"] == seeds:
        word = f"seen for FID against KL(P‖Q) with {' and '.join(half)} only"
    spaces = f"by FID in {by['fid']}, by KID in {by['kid']} of {seeds}"
    ratios = ", ".join(
        f"{n} {counts[n][0]}/{counts[n][1]} ({_mean(part, n, 'kl', few)}, {_mean(part, n, 'kl', many)})" for n in names
    )
    return word, f"50 are worse {spaces} runs; 1 is worse by KL(P‖Q)/KL(Q‖P) (KL(P‖Q) of 1, of 50) with {ratios}"


def _values(frame: pd.DataFrame, name: str, measure: str, case: str) -> pd.Series:
    """By seed."""
    part = frame[(frame.estimator == name) & (frame.measure == measure) & (frame.case == case)]
    return part.set_index("seed").value


def _larger(frame: pd.DataFrame, name: str, measure: str, case: str, than: str) -> int:
    """Runs in which one case is larger than another; a fit that diverged counts for neither."""
    return int((_values(frame, name, measure, case) > _values(frame, name, measure, than)).sum())


def _smaller(frame: pd.DataFrame, name: str, measure: str, case: str) -> int:
    (other,) = set(HALVES) - {case}
    return _larger(frame, name, measure, other, case)


class _Gap(NamedTuple):
    """Difference of the two cases' means, over their mean, and whether it counts as one."""

    relative: float
    told: bool


def _gap(frame: pd.DataFrame, measure: str) -> _Gap:
    """Of a measure that needs no ratio; with one run there is no standard error to ask for."""
    first, second = (_values(frame, NONE, measure, case) for case in HALVES)
    apart, level = abs(first.mean() - second.mean()), 0.5 * (first.mean() + second.mean())
    error = float(np.sqrt(first.var() / len(first) + second.var() / len(second))) if len(first) > 1 else 0.0
    return _Gap(float(apart / level), bool(apart > max(_APART * level, _ERRORS * error)))


def _moved(frame: pd.DataFrame, name: str, measure: str, digits: int = 2) -> str:
    first, second = (_mean(frame, name, measure, case, digits) for case in HALVES)
    return f"{first} → {second}"


def _mean(frame: pd.DataFrame, name: str, measure: str, case: str, digits: int = 2) -> str:
    values = _values(frame, name, measure, case)
    spread = f" ± {values.std():.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def _truth(frame: pd.DataFrame, case: str, measure: str) -> float:
    return float(frame[(frame.case == case) & (frame.measure == measure)].truth.mean())


def _furthest(frame: pd.DataFrame, name: str) -> str:
    """The largest relative error of a mean where the truth is finite, on the rows fitted on."""
    off = {
        (case, measure): float(_values(frame, name, measure, case).mean() / _truth(frame, case, measure) - 1.0)
        for case, measures in _FINITE.items()
        for measure in measures
    }
    (case, measure), value = max(off.items(), key=lambda item: np.nan_to_num(abs(item[1]), nan=np.inf))
    return f"{value:+.0%} ({_WORDS[measure]}, {case})"

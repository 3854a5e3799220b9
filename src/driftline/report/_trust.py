"""Trust: what the doubts about a drift mean for whoever reads it, and which of them asks for something first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driftline._wording import counted, joined, named, number, percent
from driftline.inference import Doubt, DoubtCode
from driftline.monitor import LOST, Moved, Record
from driftline.report._histories import History, doubts, not_measured, window_name

__all__ = ["Rating", "Trust", "brief", "in_order", "new_values", "rated", "raw_name"]

_FEW_NEW = 0.05  # most rows with values that the original did not have, for the drift to be read as it is
_BOUNDS = {  # the value is a lower bound, and says so; its lower end holds
    DoubtCode.BELOW_FLOOR: "plain counts of rows show more than the model finds",
    DoubtCode.MODEL_MISSES: "the model misses a part",
    DoubtCode.DRIFT_MISSED: "a part of the model joined late, and what it had missed until then is not known",
}
_CARE = (DoubtCode.NOISE_UNKNOWN, DoubtCode.NETWORK_ERRORS, DoubtCode.COUNTER_FELL, DoubtCode.NOT_AUDITED)
_OF_STEPS = (  # doubts of one step that later estimates, which build upon it, no longer name
    DoubtCode.FEW_ROWS,
    DoubtCode.NOT_CONVERGED,
    DoubtCode.LITTLE_OVERLAP,
    DoubtCode.STEP_MEAN_OFF,
    DoubtCode.OUTLIER,
    DoubtCode.SMALL_STEP,
    DoubtCode.DEPENDENT_ROWS,
)
_RECENT = 10  # windows after which a doubted step no longer counts against an estimate


class Trust(StrEnum):
    """Trust in the last estimate of the drift; doubts about other measures do not count."""

    GOOD = "good"
    BOUND = "bound"  # it holds as a lower bound
    CARE = "care"  # a part of it is not known, or an earlier step is in doubt
    POOR = "poor"


@dataclass(frozen=True)
class Rating:
    """Trust, the reason for it in a sentence, and the doubts behind it, the gravest first."""

    trust: Trust
    sentence: str
    doubts: tuple[Doubt, ...] = ()


def rated(history: History, last: Record) -> Rating:
    """Rate the last estimate of the drift: by windows after it, its own doubts, and those of the steps before it."""
    own = _rated(history, last)
    if not (missed := not_measured(history)):
        return own
    grade = Trust.POOR if own.trust == Trust.POOR or len(history.unmeasured) >= LOST else Trust.CARE
    says = f"{missed[0].upper()}{missed[1:]}; the estimate is as of {window_name(last, history.settings)}"
    known = "" if own.trust == Trust.GOOD else f" {own.sentence}"
    return Rating(grade, f"{says}, and says nothing of what came since.{known}", own.doubts)


def _rated(history: History, last: Record) -> Rating:
    found = doubts(last)
    poor = [d for d in found if d.code not in (*_BOUNDS, *_CARE, DoubtCode.CONSTANT_MOVED)]
    bound = sorted((d for d in found if d.code in _BOUNDS), key=lambda d: list(_BOUNDS).index(d.code))
    care = [d for d in found if d.code in _CARE or (d.code == DoubtCode.CONSTANT_MOVED and _many_new(last))]
    graded = (*poor, *bound, *care)
    if poor:
        more = f" (and {counted(len(graded) - 1, 'further reason')})" if len(graded) > 1 else ""
        return Rating(Trust.POOR, f"The estimate is not to be trusted: {brief(poor[0])}{more}.", graded)
    if bound:
        return Rating(Trust.BOUND, f"It is a lower bound: {_BOUNDS[bound[0].code]}.", graded)
    if care:
        return Rating(Trust.CARE, f"The estimate needs care: {brief(care[0])}.", graded)
    earlier = [r for r in history.measured[-_RECENT:] if any(d.code in _OF_STEPS for d in r.doubts)]
    if earlier:
        first = window_name(earlier[0], history.settings)
        were = "was in doubt, that" if len(earlier) == 1 else "were in doubt, the first"
        why = f"{len(earlier):,} of the latest steps {were} of {first}, and later estimates build on earlier ones"
        return Rating(Trust.CARE, f"The estimate needs care: {why}.", tuple(earlier[-1].doubts))
    return Rating(Trust.GOOD, "Nothing casts doubt on the estimate.")


def brief(doubt: Doubt) -> str:
    """Return a doubt without its advice, which comes with the verdict as one that fits the case."""
    if doubt.code == DoubtCode.CONSTANT_MOVED:
        return "how far rows with values that the original did not have are away cannot be measured"
    return doubt.sentence.partition("; ")[0]


def _share_new(record: Record) -> float:
    return record.diagnostics.get("new_values", 0.0)


def _many_new(record: Record) -> bool:
    return not _share_new(record) <= _FEW_NEW


def raw_name(name: str) -> str:
    """Return the raw column of an encoded one, as far as its name shows it."""
    return name.partition("=")[0].removesuffix(" missing").removesuffix(" changed")


def in_order(moved: Sequence[Moved], names: Iterable[str]) -> list[str]:
    """Return encoded columns in the order of the raw ones that moved, which all sentences follow; others last."""
    place = {each.column: at for at, each in enumerate(moved)}
    return sorted(names, key=lambda name: place.get(raw_name(name), len(place)))


def new_values(record: Record) -> str:
    """Say how many rows hold values that the original did not have, and the drift without them; empty if none do.

    These are a finding, not a reason for mistrust: no row of the original says how far they are.
    """
    fresh = [name for doubt in record.doubts if doubt.code == DoubtCode.CONSTANT_MOVED for name in doubt.concerns]
    columns = in_order(record.columns, fresh)
    if not columns:
        return ""
    names = joined([named(name) for name in columns[:3]]) + (" and others" if len(columns) > 3 else "")
    share, rest = _share_new(record), record.diagnostics.get("without_new_values")
    said = f"{percent(share)} of the rows hold values that no row of the original had ({names})"
    if rest is None or math.isnan(rest):
        return said
    return f"{said}, without them the drift is about {number(max(rest, 0.0))} nats"

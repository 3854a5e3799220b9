"""Wording: numbers, shares, times and names as a person reads them, in sentences, on axes and on the screen."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

__all__ = [
    "MONTHS",
    "Interval",
    "against",
    "between",
    "bounds",
    "clean",
    "counted",
    "day",
    "gist",
    "is_bound",
    "joined",
    "json_line",
    "measure",
    "moment",
    "named",
    "number",
    "percent",
    "precise",
    "qualifier",
    "shift",
    "shortened",
    "shown",
    "title",
    "unit",
    "whole",
]

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MEASURES = {  # name in the literature, with the two samples; what it is, where space allows; unit
    "reverse_kl": ("KL({current}‖{original})", "", " nats"),
    "kl": ("KL({original}‖{current})", "", " nats"),
    "js": ("Jensen-Shannon", " divergence", " nats"),
    "hellinger": ("squared Hellinger", " distance", ""),
    "pearson": ("Pearson χ²", "", ""),
    "neyman": ("Neyman χ²", "", ""),
    "total_variation": ("total variation", "", ""),
    "fid": ("FID", "", ""),
    "kid": ("KID", "", ""),
    "prd_f8": ("PRD, F8 (recall)", "", ""),
    "prd_f1_8": ("PRD, F1/8 (precision)", "", ""),
}
_LARGE = 1e9  # from here on, numbers have an exponent
_SMALL = 5e-5  # below this, a divergence is 0 for any purpose
_FAR_BELOW = 5.0  # standard errors
_FINEST = 6  # decimals


class Interval(Protocol):
    """A value with a standard error and the ends of its interval."""

    @property
    def value(self) -> float:
        """The value."""

    @property
    def std_error(self) -> float:
        """Standard error of the value."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""

    @property
    def high(self) -> float:
        """Upper end of the interval."""

    @property
    def level(self) -> float:
        """Confidence level of the interval."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A distance as people read it, see :func:`shown`."""

    value: float
    std_error: float
    low: float
    high: float
    level: float


def shown(estimate: Interval) -> Interval:
    """Return a distance as people read it: never below 0. What is kept is not changed.

    Noise is subtracted, so that without drift values scatter around 0. One below 0 reads 0, and its interval reaches as
    far as that of a reading of 0: an upper end pushed down by luck would promise too much. Where the model gives a
    lower bound, plain counts may give a greater one, the floor: the greater of the two is read. Either is wrong with
    half of the chance that the level leaves, so both together with no more than that.

    >>> from driftline.inference import Estimate
    >>> quiet = Estimate(-0.002, 0.0015, -0.002, 0.0, 0.95)
    >>> precise(quiet), bounds(quiet)
    ('0.0000', ('0', '0.0029'))
    >>> bound = Estimate(-0.002, 0.0015, -0.004, float("inf"), 0.95, floor=0.41)
    >>> qualifier(bound) + precise(bound), between(bound)
    ('at least 0.4100', 'from 0.4100')
    """
    floor = getattr(estimate, "floor", math.nan)
    if is_bound(estimate) and floor > max(estimate.low, 0.0):
        return Shown(max(estimate.value, floor), estimate.std_error, floor, estimate.high, estimate.level)
    if not (estimate.value < 0.0 or estimate.low < 0.0):
        return estimate
    low, high = max(estimate.low, 0.0), estimate.high
    if estimate.value < 0.0 and math.isfinite(high) and math.isfinite(estimate.std_error):
        high = max(high, NormalDist().inv_cdf(0.5 + 0.5 * estimate.level) * estimate.std_error)
    if math.isinf(estimate.low):  # there is no interval
        low = estimate.low
    return Shown(max(estimate.value, 0.0), estimate.std_error, low, high, estimate.level)


def measure(kind: str) -> str:
    """Return the name of a divergence in the literature; other measures are called by the name given.

    >>> measure("kl"), measure("js"), measure("my own")
    ('KL(original‖current)', 'Jensen-Shannon divergence', 'my own')
    """
    if kind not in _MEASURES:
        return kind
    name, noun, _ = _MEASURES[kind]
    return name.format(original="original", current="current") + noun


def title(kind: str, original: str, current: str) -> str:
    """Return a short name of a measure with its unit, for axes; the arguments name the two samples.

    >>> title("kl", "real", "generated"), title("hellinger", "real", "generated")
    ('KL(real‖generated) [nats]', 'squared Hellinger')
    """
    if kind not in _MEASURES:
        return kind
    name, _, unit_name = _MEASURES[kind]
    return name.format(original=original, current=current) + (f" [{unit_name.strip()}]" if unit_name else "")


def unit(kind: str) -> str:
    """Return `` nats``, or an empty string for a divergence without a unit."""
    return _MEASURES[kind][2] if kind in _MEASURES else ""


def number(value: float, decimals: int | None = None) -> str:
    """Write a number with three digits or the given decimals, a real minus sign, and commas between thousands.

    >>> number(0.84321), number(-0.00312), number(1234567.8), number(1e-7), number(float("nan"))
    ('0.843', '−0.00312', '1,234,568', '0', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "beyond all numbers"
    size = abs(value)
    if size >= _LARGE:
        text = f"{size:.2e}".replace("e+", "e")
    elif decimals is not None:
        text = f"{size:,.{decimals}f}"
    elif size < _SMALL:
        text = "0"
    else:
        text = f"{size:,.0f}" if size >= 999.5 else f"{size:.3g}"  # 999.5 would be written 1e+03
    return text if value >= 0 or not re.search("[1-9]", text) else f"−{text}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """Count things: ``1 window``, ``2,000 windows``.

    >>> counted(1, "row"), counted(2870, "row")
    ('1 row', '2,870 rows')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def whole(rows: float) -> str:
    """Round a count that may be unknown.

    >>> whole(1234.4), whole(float("nan"))
    ('1,234', '–')
    """
    return f"{rows:,.0f}" if math.isfinite(rows) else "–"


def percent(share: float) -> str:
    r"""Write a share in percent, with one more digit if it is small; number and sign stay on one line.

    >>> percent(0.6234), percent(0.004), percent(0.0), percent(1.0)
    ('62\xa0%', '0.4\xa0%', '0\xa0%', '100\xa0%')
    """
    if not math.isfinite(share):
        return "unknown"
    if 0.0 < share < 0.0005:
        return "under 0.1\xa0%"
    digits = 1 if 0.0 < abs(share) < 0.0095 else 0
    return f"{number(100.0 * share, digits)}\xa0%"


def _decimals(estimate: Interval) -> int | None:
    """Return the number of decimals that gives the error bar about two digits; None without an error bar."""
    width = estimate.std_error
    if not math.isfinite(width) or width <= 0.0:
        return None
    wanted = 1 - math.floor(math.log10(width))
    sensible = 3 - math.floor(math.log10(max(abs(estimate.value), 1e-9)))  # four digits are enough for any reader
    return min(max(min(wanted, sensible), 0), 4)


def precise(estimate: Interval) -> str:
    """Write the value with as many digits as its error bar supports.

    >>> from driftline.inference import Estimate
    >>> precise(Estimate(0.84321, 0.02, 0.80, 0.88, 0.95)), precise(Estimate(0.84321, float("nan"), 0, 0, 0.95))
    ('0.843', '0.843')
    """
    return number(shown(estimate).value, _decimals(estimate))


def against(estimate: Interval, limit: float) -> tuple[str, str]:
    """Write a value and the limit that it is compared with, with the same decimals: more where both would look alike.

    >>> from driftline.inference import Estimate
    >>> against(Estimate(0.1234, 0.02, 0.08, 0.16, 0.95), 0.1), against(Estimate(0.1004, 0.02, 0.06, 0.14, 0.95), 0.1)
    (('0.123', '0.100'), ('0.1004', '0.1000'))
    """
    value, decimals = shown(estimate).value, _decimals(estimate)
    texts = number(value, decimals), number(limit, decimals)
    while decimals is not None and decimals < _FINEST and texts[0] == texts[1] and value != limit:
        decimals += 1
        texts = number(value, decimals), number(limit, decimals)
    return texts


def between(estimate: Interval) -> str:
    """Write the interval, as in ``0.804 to 0.882``, or ``from 0.804`` for a lower bound; empty if there is none."""
    return f"from {bounds(estimate)[0]}" if is_bound(estimate) else " to ".join(bounds(estimate))


def bounds(estimate: Interval) -> tuple[str, ...]:
    """Write both ends of the interval with as many digits as the value has; empty if there is none.

    One that is open above belongs to a value that is a lower bound.

    >>> from driftline.inference import Estimate
    >>> bounds(Estimate(0.84321, 0.02, 0.80, 0.88, 0.95)), bounds(Estimate(0.8, 0.02, float("nan"), 1.0, 0.95))
    (('0.800', '0.880'), ())
    >>> bounds(Estimate(0.84321, 0.02, 0.80, float("inf"), 0.95))
    ('0.800', '∞')
    """
    if not math.isfinite(estimate.low):
        return ()
    decimals, read = _decimals(estimate), shown(estimate)
    low = "0" if read.low == 0.0 else number(read.low, decimals)
    return low, number(read.high, decimals) if math.isfinite(read.high) else "∞"


def is_bound(estimate: Interval) -> bool:
    """Say whether a value is only a lower bound: its interval is open above."""
    return math.isfinite(estimate.low) and not math.isfinite(estimate.high)


def qualifier(estimate: Interval) -> str:
    """Return the words that go before a value: how it is meant if its interval is open above, otherwise nothing.

    A lower end that is the floor, or far below the error bar, is that of counts: the value rests on a step that could
    not be measured, and may be too high as well as too low.

    >>> from driftline.inference import Estimate
    >>> qualifier(Estimate(8.4, 0.3, 7.8, float("inf"), 0.95)), qualifier(Estimate(8.4, 0.3, 0.6, float("inf"), 0.95))
    ('at least ', 'about ')
    """
    if not is_bound(estimate):
        return ""
    counts = not getattr(estimate, "lower_bound", False) and estimate.low == getattr(estimate, "floor", math.nan) > 0.0
    far = estimate.value > estimate.low + _FAR_BELOW * estimate.std_error
    return "about " if far or (counts and estimate.value > estimate.low) else "at least "


def _js_of(distance: float) -> float:
    """Return the Jensen-Shannon divergence of two unit normals this far apart, by quadrature."""
    x = np.linspace(-8.0, 8.0 + distance, 4001)
    # densities in logs, so that far tails keep their digits
    one, other = -0.5 * x**2, -0.5 * (x - distance) ** 2
    middle = np.logaddexp(one, other) - math.log(2.0)
    inside = 0.5 * (np.exp(one) * (one - middle) + np.exp(other) * (other - middle))
    return float(inside.sum() * (x[1] - x[0]) / math.sqrt(2.0 * math.pi))


def shift(value: float, kind: str) -> float:
    """Return how many standard deviations one normal column would have to move to be this divergence away.

    ``inf`` if the divergence has reached its bound, ``nan`` if it is not a number or its kind is unknown.

    >>> shift(0.5, "reverse_kl"), round(shift(shift(0.0, "js"), "js"), 3), shift(1.0, "hellinger")
    (1.0, 0.0, inf)
    """
    value = max(value, 0.0)
    if kind in ("kl", "reverse_kl"):
        return math.sqrt(2.0 * value)
    if kind in ("pearson", "neyman"):
        return math.sqrt(math.log1p(value))
    if kind == "hellinger":
        return math.inf if value >= 1.0 else math.sqrt(-8.0 * math.log1p(-value))
    if kind == "total_variation":
        return math.inf if value >= 1.0 else 2.0 * NormalDist().inv_cdf(0.5 + 0.5 * value)
    if kind == "js":
        distances = np.linspace(0.0, 8.0, 81)
        return float(np.interp(value, [_js_of(d) for d in distances], distances, right=math.inf))
    return math.nan


def named(name: str, longest: int = 40) -> str:
    """Write a name for a sentence: shortened in the middle, in quotes unless it is one plain word.

    >>> named("price"), named("unit price"), named("x" * 60, 9)
    ('price', '“unit price”', 'xxxx…xxxx')
    """
    name = " ".join(name.split()) or name
    plain = re.fullmatch(r"\w[\w.-]*", name) is not None
    name = shortened(name, longest)
    return name if plain else f"“{name}”"


def shortened(text: str, longest: int) -> str:
    """Cut out the middle of a text that is too long."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def joined(parts: Sequence[str]) -> str:
    """Join parts as in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def moment(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time into UTC, taking naive times as UTC; None if it cannot be parsed."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def day(at: datetime, clock: bool = False) -> str:
    """Write a date, as in ``3 Mar 2014``, with the time of day if asked for or if it is not midnight."""
    text = f"{at.day} {MONTHS[at.month - 1]} {at.year}"
    seconds = f":{at.second:02}" if at.second else ""
    return f"{text} {at.hour:02}:{at.minute:02}{seconds}" if clock or at.hour or at.minute or at.second else text


def gist(text: str, names: Container[str] = ()) -> str:
    """Return a note without its numbers and examples: notes that differ in these alone say the same thing.

    A column that the note begins with stays as it is, if it is among the ``names``.

    >>> gist("12 rows came late") == gist("4 rows came late")
    True
    >>> gist("x1: 12 rows", {"x1", "x2"}) == gist("x2: 12 rows", {"x1", "x2"})
    False
    """
    ends = [at.start() for at in re.finditer(": ", text) if text[: at.start()] in names]
    name, rest = (text[: ends[-1]], text[ends[-1] :]) if ends else ("", text)
    return name + re.sub(r"[0-9][0-9.,]*", "#", rest.partition(", such as ")[0])


def clean(text: str) -> str:
    """Replace control characters: names and values come from files, and must not steer the terminal.

    >>> clean("red\\x1b[31m alert")
    'red�[31m alert'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def json_line(value: Any, *, sort_keys: bool = False, finite: bool = True) -> str:
    r"""Write a value as one line of JSON, in which characters that steer a terminal or turn text around are escaped.

    Only where we read it ourselves, numbers need not be ``finite``.

    >>> print(json_line({"Größe": "\x9b31m \u202egpj"}))
    {"Größe": "\u009b31m \u202egpj"}
    """
    text = json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, allow_nan=not finite)
    if text.isprintable():
        return text
    # such characters can only stand inside strings, where an escape means the same; wide spaces do no harm
    plain = (c.isprintable() or unicodedata.category(c) == "Zs" for c in text)
    return "".join(c if is_plain else json.dumps(c)[1:-1] for c, is_plain in zip(text, plain, strict=True))

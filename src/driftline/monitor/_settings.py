"""Settings of a run: checked once, kept in the tracker file, and used again when the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from driftline._errors import Option, OptionError
from driftline.fitting import MODELS as _ALL_MODELS
from driftline.inference import DIVERGENCES
from driftline.monitor._fields import (
    Panel,
    at_least,
    between,
    check_settings,
    documented,
    not_empty,
    setting,
    settings_of,
)
from driftline.sources import NULL_WORDS, WindowRule

if TYPE_CHECKING:  # the command line needs the names of settings at once: SciPy and PyTorch would take seconds
    from driftline.alarms import AlarmPolicy

__all__ = ["DATETIME_PARTS", "MODELS", "Settings"]

_WHOLE = 10**9  # rows, more than any table in memory has

DATETIME_PARTS = ("hour", "weekday", "day", "month")
MODELS = tuple(name for name in _ALL_MODELS if name != "quadratic-full")  # too many parameters for encoded tables


@documented
@dataclass(frozen=True)
class Settings:
    """Choices that define a run. Each is written here once: the command line, TOML files and docs are made from it.

    A run needs ``window``, or ``time_column`` and ``every``. The promises of the alarm are those of
    :class:`~driftline.alarms.DriftAlarm`.
    """

    window: int | None = setting(None, help="Rows per window.", panel=Panel.WINDOWS, metavar="ROWS", for_streams=True)
    time_column: str | None = setting(
        None,
        help="Column with the times of the rows; needs --every.",
        panel=Panel.WINDOWS,
        metavar="COLUMN",
        for_streams=True,
    )
    every: str | None = setting(
        None,
        help="Length of a window: 15min, 6h, 1d, 1w, 1mo.",
        panel=Panel.WINDOWS,
        metavar="TIME",
        for_streams=True,
    )
    lateness: str = setting(
        "0s",
        help="Time a window waits for rows out of order, such as 2h.",
        panel=Panel.WINDOWS,
        metavar="TIME",
        for_streams=True,
    )
    day_first: str | None = setting(
        None,
        help="Whether times such as 01/02/2012 begin with the day.",
        panel=Panel.WINDOWS,
        metavar="yes|no",
        known=("yes", "no"),
        for_streams=True,
    )
    columns: tuple[str, ...] = setting(
        (), help="Watch only these.", panel=Panel.COLUMNS, metavar="A,B,...", if_missing="all"
    )
    drop: tuple[str, ...] = setting((), help="Leave these out.", panel=Panel.COLUMNS, metavar="A,B,...")
    numeric: tuple[str, ...] = setting((), help="Treat these as numbers.", panel=Panel.COLUMNS, metavar="A,B,...")
    categorical: tuple[str, ...] = setting(
        (), help="Treat these as categories, even if they hold numbers.", panel=Panel.COLUMNS, metavar="A,B,..."
    )
    datetime: tuple[str, ...] = setting(
        (),
        help=f"Parts of dates to watch: {', '.join(DATETIME_PARTS)}.",
        panel=Panel.COLUMNS,
        metavar="PART,...",
        known=DATETIME_PARTS,
        if_missing="none",
    )
    null_values: tuple[str, ...] = setting(
        (),
        help="Words for a missing value in CSV and TSV, besides an empty field.",
        panel=Panel.COLUMNS,
        metavar="WORD,...",
        if_missing=",".join(NULL_WORDS),
    )
    schema: str = setting(
        "strict",
        help="strict: missing, new or retyped columns are errors; lenient: they are noted.",
        panel=Panel.COLUMNS,
        metavar="strict|lenient",
        known=("strict", "lenient"),
        changeable=True,
    )
    model: str = setting(
        "auto",
        help=f"Model of the log-ratio: {', '.join(MODELS)}.",
        panel=Panel.ESTIMATES,
        metavar="MODEL",
        known=MODELS,
    )
    divergences: tuple[str, ...] = setting(
        ("reverse_kl", "js", "kl"),
        help="Divergences to estimate; the alarm looks at the first.",
        panel=Panel.ESTIMATES,
        metavar="D,...",
        known=tuple(DIVERGENCES),
        check=not_empty("the alarm looks at the first one"),
    )
    tolerance: float = setting(
        0.1, help="Drift that does not matter, in nats.", panel=Panel.ALARMS, metavar="NATS", changeable=True
    )
    run_length: float = setting(
        1000.0,
        help="Average number of windows between false alarms.",
        panel=Panel.ALARMS,
        metavar="WINDOWS",
        changeable=True,
        for_streams=True,
    )
    warning: float | None = setting(
        None,
        help="Average number of windows between false warnings.",
        panel=Panel.ALARMS,
        metavar="WINDOWS",
        if_missing="a tenth of --run-length",
        changeable=True,
        for_streams=True,
    )
    persistence: int = setting(
        1,
        help="Windows in a row that raise or end an alarm.",
        panel=Panel.ALARMS,
        metavar="WINDOWS",
        changeable=True,
        for_streams=True,
    )
    warm_up: int = setting(
        0,
        help="Windows at the start that cannot raise an alarm.",
        panel=Panel.ALARMS,
        metavar="WINDOWS",
        changeable=True,
        for_streams=True,
    )
    level: float = setting(
        0.95,
        help="Confidence level of intervals.",
        panel=Panel.ESTIMATES,
        metavar="LEVEL",
        check=between(0, 1),
        changeable=True,
    )
    top: int = setting(
        5,
        help="Number of columns that a report unfolds and a figure draws; Records name all that moved.",
        panel=Panel.ESTIMATES,
        metavar="COUNT",
        check=at_least(0),
        changeable=True,
    )
    summaries: bool = setting(
        True,
        help="Keep histograms of the columns, and counts that tell which moved.",
        panel=Panel.RESULTS,
        for_streams=True,
    )
    seed: int = setting(0, help="Random seed.", panel=Panel.ESTIMATES, metavar="SEED", check=at_least(0))

    def __post_init__(self) -> None:
        check_settings(self)
        both = sorted(set(self.numeric) & set(self.categorical))
        if both:
            raise OptionError(
                "column {column!r} cannot be in both {numeric} and {categorical}: leave it out of one",
                column=both[0],
                numeric=Option("numeric"),
                categorical=Option("categorical"),
            )
        for name in ("columns", "numeric", "categorical"):
            wanted = sorted(set(getattr(self, name)) & set(self.drop))
            if wanted:
                raise OptionError(
                    "column {column!r} cannot be in both {option} and {drop}: leave it out of one",
                    column=wanted[0],
                    option=Option(name),
                    drop=Option("drop"),
                )
        self.window_rule()  # checks the fields that it uses
        self.policy()  # likewise

    def window_rule(self) -> WindowRule:
        """Return the rule by which the stream is cut into windows."""
        return WindowRule(
            self.window,
            self.time_column,
            self.every,
            self.lateness,
            self.schema,
            self.day_first,
            columns=self.columns,
            drop=self.drop,
        )

    def policy(self) -> AlarmPolicy:
        """Return the policy of the alarm."""
        from driftline.alarms import AlarmPolicy

        return AlarmPolicy(self.tolerance, self.run_length, self.warning, self.persistence, self.warm_up)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def uncut(cls, given: Mapping[str, Any]) -> Self:
        """Return settings for rows that are not cut into windows, or not yet: one window holds all there are."""
        return cls.from_dict({"window": _WHOLE, **given})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build settings from JSON or TOML; an unknown key is an error."""
        known = settings_of(cls)
        unknown = [name for name in data if name not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a setting: known are {', '.join(known)}")
        return cls(**data)

    def differs(self, given: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the given settings that differ from these: name -> (this value, given value)."""
        mine, known = self.to_dict(), settings_of(type(self))
        found = {}
        for name, value in given.items():
            if name not in known:
                type(self).from_dict({name: value})  # raises, and lists the known ones
            plain = list(value) if isinstance(value, tuple | list) else value
            plain = [plain] if isinstance(plain, str) and isinstance(mine[name], list) else plain
            if plain != mine[name]:
                found[name] = (mine[name], plain)
        return found

"""Settings of a run: checked once, kept in the tracker file, and used again when the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from driftline.fitting import MODELS as _ALL_MODELS
from driftline.inference import DIVERGENCES
from driftline.sources import WindowRule

if TYPE_CHECKING:  # the command line needs the names of settings at once: SciPy and PyTorch would take seconds
    from driftline.alarms import AlarmPolicy

__all__ = ["DATETIME_PARTS", "MODELS", "Settings"]

DATETIME_PARTS = ("hour", "weekday", "day", "month")
MODELS = tuple(name for name in _ALL_MODELS if name != "quadratic-full")  # too many parameters for encoded tables


@dataclass(frozen=True)
class Settings:
    """Choices that define a run.

    Arguments:
        window: number of rows in a window; or give ``time_column`` and ``every``.
        time_column: column with the rows' times, for windows by time.
        every: length of a window by time: a number and s, min, h, d, w or mo, such as ``"1d"``.
        lateness: time a window waits for rows that come out of order, such as ``"2h"``.
        columns: columns to watch; all if empty.
        drop: columns to leave out.
        numeric, categorical: columns whose kind is given, not guessed.
        datetime: parts of datetime columns to watch: hour, weekday, day, month; none by default.
        schema: treatment of columns that are missing, new or of another type: ``"strict"`` makes them an error; with
            ``"lenient"`` absent columns count as missing values, new ones are left out, values that cannot be read are
            missing, and all of this is noted.
        model: model of the log-ratio: auto, linear, quadratic, mlp.
        divergences: divergences that Records hold; the alarm looks at the first.
        tolerance: drift that does not matter, in nats.
        run_length, warning, persistence, warm_up: promises of the alarm, as in :class:`~driftline.alarms.DriftAlarm`.
        level: confidence level of intervals.
        top: number of columns a Record names.
        summaries: whether histograms of the columns (of the originals and the current window) are kept for reports.
        seed: random seed.
    """

    window: int | None = None
    time_column: str | None = None
    every: str | None = None
    lateness: str = "0s"
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    datetime: tuple[str, ...] = ()
    schema: str = "strict"
    model: str = "auto"
    divergences: tuple[str, ...] = ("reverse_kl", "js", "kl")
    tolerance: float = 0.1
    run_length: float = 1000.0
    warning: float | None = None
    persistence: int = 1
    warm_up: int = 0
    level: float = 0.95
    top: int = 5
    summaries: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("columns", "drop", "numeric", "categorical", "datetime", "divergences"):
            value = getattr(self, name)
            value = (value,) if isinstance(value, str) else tuple(value)
            if not all(isinstance(v, str) and v for v in value):
                raise ValueError(f"{name}={value!r} must be names")
            object.__setattr__(self, name, value)
        self.window_rule()  # checks the fields that it uses
        self._check_choices()
        self.policy()  # likewise

    def _check_choices(self) -> None:
        for name, value, known in (
            ("schema", (self.schema,), ("strict", "lenient")),
            ("model", (self.model,), MODELS),
            ("datetime", self.datetime, DATETIME_PARTS),
            ("divergences", self.divergences, tuple(DIVERGENCES)),
        ):
            unknown = [v for v in value if v not in known]
            if unknown:
                raise ValueError(f"{name}: {unknown[0]!r} is unknown, choose from {', '.join(known)}")
        if not self.divergences:
            raise ValueError("divergences is empty: the alarm looks at the first one")
        both = sorted(set(self.numeric) & set(self.categorical))
        if both:
            raise ValueError(f"column {both[0]!r} cannot be both numeric and categorical")
        wanted = sorted({*self.columns, *self.numeric, *self.categorical} & set(self.drop))
        if wanted:
            raise ValueError(f"column {wanted[0]!r} is both watched and dropped")
        if not isinstance(self.level, int | float) or not 0.0 < self.level < 1.0:
            raise ValueError(f"level={self.level!r} must lie between 0 and 1")
        if not isinstance(self.top, int) or self.top < 0:
            raise ValueError(f"top={self.top!r} must be a whole number of at least 0")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed={self.seed!r} must be a whole number of at least 0")

    def window_rule(self) -> WindowRule:
        """Return the rule by which the stream is cut into windows."""
        return WindowRule(self.window, self.time_column, self.every, self.lateness, self.schema)

    def policy(self) -> AlarmPolicy:
        """Return the policy of the alarm."""
        from driftline.alarms import AlarmPolicy

        return AlarmPolicy(self.tolerance, self.run_length, self.warning, self.persistence, self.warm_up)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build settings from JSON or TOML; an unknown key is an error."""
        known = [f.name for f in fields(cls)]
        unknown = [name for name in data if name not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a setting: known are {', '.join(known)}")
        return cls(**data)

    def differs(self, given: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the given settings that differ from these: name -> (this value, given value)."""
        mine, known = self.to_dict(), {f.name for f in fields(self)}
        found = {}
        for name, value in given.items():
            if name not in known:
                type(self).from_dict({name: value})  # raises, and lists the known ones
            plain = list(value) if isinstance(value, tuple | list) else value
            plain = [plain] if isinstance(plain, str) and isinstance(mine[name], list) else plain
            if plain != mine[name]:
                found[name] = (mine[name], plain)
        return found

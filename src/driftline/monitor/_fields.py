"""Setting: all that is known about one field of a dataclass; flags, TOML keys, checks and docs are made from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cache, partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from driftline._errors import Option, OptionError

__all__ = [
    "Panel",
    "Setting",
    "at_least",
    "between",
    "check_settings",
    "documented",
    "not_empty",
    "setting",
    "settings_of",
]

Check = Callable[[str, Any], None]
T = TypeVar("T")
_TYPES: dict[type, tuple[type, str]] = {  # what a value of this type may be in Python, and what it is called
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    tuple: (tuple, "names"),
}


class Panel(Enum):
    """Groups of settings, in the order of the help; groups with the same heading are shown as one."""

    WINDOWS = (1, "Windows")
    COLUMNS = (2, "Columns")
    ALARMS = (3, "Alarms and estimates")
    ESTIMATES = (4, "Alarms and estimates")
    READING = (5, "Reading")
    KEEPING = (6, "Results")
    RESULTS = (7, "Results")

    @property
    def heading(self) -> str:
        """Heading above the group."""
        return self.value[1]


@dataclass(frozen=True)
class Setting:
    """Description of one setting; its name, type and default are those of the field it is written in.

    Attributes:
        name: name of the field.
        type: int, float, str, bool, a StrEnum, or tuple for names; without None.
        default: value if it is not given; MISSING if it must be.
        help: meaning, in a sentence or two.
        panel: group in the help; None for a positional argument.
        metavar: what stands for the value in the help.
        known: values to choose from; empty if there are others.
        suggested: values that the shell completes, among others that are right too.
        check: function of name and value that raises a ValueError if the value cannot be right.
        if_missing: the default in words, where the value does not say it.
        changeable: whether it may change while a run goes on: how estimates are judged, not what is read.
        for_streams: whether it has a meaning only where windows follow each other, not in a comparison of two files.
        alias: older name that is still understood.
    """

    name: str
    type: type
    default: Any
    help: str
    panel: Panel | None
    metavar: str | None
    known: tuple[str, ...]
    suggested: tuple[str, ...]
    check: Check | None
    if_missing: str | None
    changeable: bool
    for_streams: bool
    alias: str | None

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def type_in_words(self) -> str:
        """Kind of value that it takes, in words."""
        return _TYPES.get(self.type, (str, "text"))[1]

    def takes(self, value: Any) -> bool:
        """Say whether a value is of the setting's type; names are checked one by one elsewhere."""
        if self.type is tuple or (value is None and self.default is None):
            return True
        if isinstance(value, bool) or self.type is bool:
            return isinstance(value, bool) and self.type is bool
        return isinstance(value, _TYPES.get(self.type, (str, "text"))[0])

    @property
    def default_in_words(self) -> str:
        """Default in words; empty if there is nothing to say."""
        if self.if_missing is not None:
            return self.if_missing
        if self.default is MISSING or self.default is None or self.default is False or self.default == ():
            return ""
        if self.default is True:
            return "yes"
        if isinstance(self.default, tuple):
            return ",".join(self.default)
        return f"{self.default:g}" if isinstance(self.default, int | float) else str(self.default)

    @property
    def full_help(self) -> str:
        """Meaning and default."""
        words = self.default_in_words
        return f"{self.help} (default: {words})" if words else self.help


def setting(
    default: Any = MISSING,
    *,
    help: str,
    panel: Panel | None = None,
    metavar: str | None = None,
    known: tuple[str, ...] = (),
    suggested: tuple[str, ...] = (),
    check: Check | None = None,
    if_missing: str | None = None,
    changeable: bool = False,
    for_streams: bool = False,
    alias: str | None = None,
) -> Any:
    """Declare a field of a dataclass as a setting; the arguments are explained in :class:`Setting`.

    >>> @dataclass(frozen=True)
    ... class Tea:
    ...     minutes: int = setting(3, help="Time to wait.", check=at_least(1))
    >>> settings_of(Tea)["minutes"].full_help
    'Time to wait. (default: 3)'
    """
    described = partial(
        Setting,
        help=help,
        panel=panel,
        metavar=metavar,
        known=known,
        suggested=suggested,
        check=check,
        if_missing=if_missing,
        changeable=changeable,
        for_streams=for_streams,
        alias=alias,
    )
    return field(default=default, metadata={"setting": described})


def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """Return the settings among the fields of a dataclass, by name.

    >>> from driftline.monitor import Settings
    >>> level = settings_of(Settings)["level"]
    >>> level.flag, level.type, level.default, level.changeable
    ('--level', <class 'float'>, 0.95, True)
    """
    return dict(_settings_of(cls))  # type: ignore[arg-type]  # classes are hashable, whatever mypy makes of Any


@cache
def _settings_of(cls: type[Any]) -> dict[str, Setting]:
    types = get_type_hints(cls)
    return {
        each.name: each.metadata["setting"](each.name, _without_none(types[each.name]), each.default)
        for each in fields(cls)
        if "setting" in each.metadata
    }


def _without_none(hint: Any) -> type:
    """Return the type itself, without None and without what a tuple holds."""
    hint = next((arg for arg in get_args(hint) if NoneType in get_args(hint) and arg is not NoneType), hint)
    found: type = get_origin(hint) or hint
    return found


def check_settings(settings: Any) -> None:
    """Check each setting of a frozen dataclass for itself; names become tuples.

    >>> from driftline.monitor import Settings
    >>> Settings(window=300, drop="id").drop
    ('id',)
    >>> Settings(window=300, level=95)
    Traceback (most recent call last):
    driftline._errors.OptionError: level=95 must lie between 0 and 1
    """
    for name, each in settings_of(type(settings)).items():
        value = getattr(settings, name)
        if each.type is tuple:
            value = _names(name, value)
            object.__setattr__(settings, name, value)
        if value is None and each.default is None:
            continue
        unknown = [v for v in (value if each.type is tuple else (value,)) if each.known and v not in each.known]
        if unknown:
            raise OptionError(
                "{option}: {value!r} is unknown, choose from {known}",
                option=Option(name),
                value=unknown[0],
                known=", ".join(each.known),
            )
        if each.check is not None:
            each.check(name, value)
        if not each.takes(value):
            raise OptionError("{option} must be {kind}", option=Option(name, value), kind=each.type_in_words)


def _names(name: str, value: Any) -> tuple[str, ...]:
    if value is None or not isinstance(value, Iterable):
        raise OptionError("{option} must be names", option=Option(name, value))
    found = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(v, str) and v for v in found):
        raise OptionError("{option} must be names", option=Option(name, found))
    return found


def at_least(least: int) -> Check:
    """Check for whole numbers that are not smaller."""

    def checked(name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            given = Option(name, value)
            raise OptionError("{option} must be a whole number of at least {least}", option=given, least=least)

    return checked


def between(low: float, high: float) -> Check:
    """Check for numbers between two limits, which are excluded."""

    def checked(name: str, value: Any) -> None:
        if not isinstance(value, int | float) or not low < value < high:
            given = Option(name, value)
            raise OptionError("{option} must lie between {low:g} and {high:g}", option=given, low=low, high=high)

    return checked


def not_empty(reason: str) -> Check:
    """Check for at least one name."""

    def checked(name: str, value: Any) -> None:
        if not value:
            raise OptionError("{option} is empty: {reason}", option=Option(name), reason=reason)

    return checked


def documented(cls: type[T]) -> type[T]:
    """Append the settings of a dataclass to its docstring, with the names that they have in Python."""
    lines = "\n".join(f"        {name}: {each.full_help}" for name, each in settings_of(cls).items())
    names = re.sub(r"--([a-z-]+)", lambda flag: f"``{flag[1].replace('-', '_')}``", lines)
    cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    Arguments:\n{names}\n    "
    return cls

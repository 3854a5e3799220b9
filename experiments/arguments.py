"""Checks of arguments, named by flag and value, and the ways in which they differ from the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["changed", "check_above_zero", "check_among", "check_at_least", "check_drift", "differences", "remark"]


def check_at_least(args: Any, least: int, *fields: str) -> None:
    """Refuse arguments of which one of the fields is below ``least``."""
    for field in fields:
        if getattr(args, field) < least:
            raise ValueError(f"{_flag(field)} {getattr(args, field)} must be at least {least}")


def check_among(args: Any, field: str, choices: Iterable[str]) -> None:
    """Refuse arguments of which a field, or one of its values, is not among the choices."""
    given = getattr(args, field)
    if unknown := [value for value in ([given] if isinstance(given, str) else given) if value not in choices]:
        raise ValueError(f"{_flag(field)} {' '.join(unknown)}: choose among {', '.join(choices)}")


def check_above_zero(args: Any, *fields: str) -> None:
    """Refuse arguments of which one of the fields is not positive."""
    for field in fields:
        if not getattr(args, field) > 0.0:
            raise ValueError(f"{_flag(field)} {getattr(args, field):g} must be above 0")


def check_drift(args: Any, steps: str) -> None:
    """Refuse a ``delta`` with which 1 - delta t, a standard deviation, would reach 0 within the steps."""
    if not 0.0 < args.delta * getattr(args, steps) < 1.0:
        raise ValueError(f"--delta {args.delta:g} must be above 0 and below 1 / {_flag(steps)} {getattr(args, steps)}")


def differences(args: Any, paper: Any, names: Mapping[str, str]) -> list[str]:
    """Name the fields in which arguments differ from the paper's, with both values; ``names`` puts them into words."""
    return [
        f"{names[field]} {_shown(getattr(args, field))} instead of {_shown(getattr(paper, field))}"
        for field in changed(args, paper, names)
    ]


def changed(args: Any, paper: Any, fields: Iterable[str]) -> list[str]:
    """Fields in which arguments differ from the paper's."""
    return [field for field in fields if getattr(args, field) != getattr(paper, field)]


def remark(lead: str, parts: Iterable[str]) -> str:
    """Put a last sentence behind a caption, with a space before it; nothing without parts."""
    words = "; ".join(parts)
    return f" {lead}: {words}." if words else ""


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:,}"


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"

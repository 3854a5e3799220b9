"""Arguments of experiments: what each flag means, checks named by flag and value, differences from the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

__all__ = [
    "changed",
    "check_above_zero",
    "check_among",
    "check_at_least",
    "check_drift",
    "differences",
    "flag",
    "meaning",
    "remark",
]

Value = TypeVar("Value")

_SHARED = {
    "seeds": "number of seeds, counted from 0",
    "first_seed": "number of the first seed: units of earlier ones are not run",
    "network_seeds": "how many of the seeds networks are run for, as they take longest",
    "rows": "rows of a window to train on",
    "dim": "columns of the Gaussian stream",
    "delta": "how far mean and standard deviation move in one time step; below 1 over the last time",
    "last": "last time step",
    "epochs": "most epochs of a fit of CKLIEP's and KLIEP's networks",
    "rate": "learning rate of CKLIEP's and KLIEP's networks",
    "device": "where networks train: cpu, cuda or auto, which takes a GPU if there is one",
    "variants": "of CKLIEP's and KLIEP's networks: printed (the paper's method), code (that of the authors' code)",
    "dataset": "mnist, fashion-mnist, or digits (8 x 8 pixels, comes with scikit-learn, for trials)",
    "classifier_width": "factor on the channels of the classifier's convolutions",
    "classifier_epochs": "epochs of the classifier of real images",
}
"""Meanings of flags that several experiments have; a field made by :func:`flag` has a meaning of its own."""


def flag(default: Value, meaning: str) -> Value:
    """Declare a field of an experiment's arguments, with what ``--help`` says about its flag: units, allowed values."""
    declared: Value = dataclasses.field(default=default, metadata={"meaning": meaning})
    return declared


def meaning(declared: dataclasses.Field[Any]) -> str:
    """Return what ``--help`` says about a field's flag; empty for one that nobody has described."""
    return str(declared.metadata.get("meaning") or _SHARED.get(declared.name, ""))


def check_at_least(args: Any, least: int, *fields: str) -> None:
    """Refuse arguments of which one of the fields is below ``least``."""
    for field in fields:
        if getattr(args, field) < least:
            raise ValueError(f"{_flag(field)} {getattr(args, field)} must be at least {least}")


def check_among(args: Any, field: str, choices: Iterable[str]) -> None:
    """Refuse arguments of which a field, or one of its values, is not among the choices."""
    given = getattr(args, field)
    if unknown := [value for value in ([given] if isinstance(given, str) else given) if value not in choices]:
        raise ValueError(f"{_flag(field)} {unknown[0]!r} is unknown: choose from {', '.join(map(repr, choices))}")


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

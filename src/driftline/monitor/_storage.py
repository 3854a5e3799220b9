"""The state of a run, to and from the parts of a tracker file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from driftline._errors import Message, Option, OptionError, Value
from driftline.alarms import AlarmMemory, Signal
from driftline.estimators import dump_estimator, parse_estimator
from driftline.monitor._advance import RunState
from driftline.monitor._fields import settings_of
from driftline.monitor._moves import Pool
from driftline.monitor._records import Run
from driftline.monitor._settings import Settings
from driftline.monitor._skips import skipped_in_a_row
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._tracker import Content, Progress
from driftline.sources import Cursor
from driftline.tables import TableEncoder, fits

__all__ = ["encoder_of", "progressed", "restored", "state_bytes", "with_settings"]

_ESTIMATOR = "ContinualDensityRatio"  # by name: the class needs scikit-learn, a monitor does not


def progressed(state: RunState, before: Progress) -> Progress:
    """Return the progress of a run in this state; its digests are those before the commit."""
    return replace(
        before,
        windows=state.windows,
        cursor=None if state.cursor is None else state.cursor.to_dict(),
        alarms={name: _alarm_to_dict(alarm) for name, alarm in state.alarms.items()},
        originals=[original.to_dict() for original in state.originals],
        now=state.now,
        pools={name: pool.to_dict() for name, pool in state.pools.items()},
    )


def state_bytes(state: RunState) -> bytes:
    """Return the recursion's state as the estimator that it belongs to would save it, without padding."""
    settings = state.settings
    params = {"model": settings.model, "keep": settings.keep, "random_state": settings.seed}
    return dump_estimator(state.recursion, _ESTIMATOR, params, settings.seed, state.encoder.names)


def restored(content: Content, run: Run) -> RunState:
    """Return the state in which a tracker file left its run."""
    stored, progress = parse_estimator(content.state, _ESTIMATOR, run.path).state, content.progress
    try:
        encoder = encoder_of(run)
        width = next(iter(stored.tracks.values())).current.window.shape[1]
        if width != len(encoder.names):
            raise ValueError(f"a state of {width} columns, an encoder of {len(encoder.names)}")
        originals = {original.name for original in run.originals}
        if not set(progress.alarms) == set(stored.tracks) == originals:
            raise ValueError(
                f"alarms of {sorted(progress.alarms)}, a state of {list(stored.tracks)}, originals {sorted(originals)}"
            )
        if set(progress.pools) != originals:
            raise ValueError(f"pools of {sorted(progress.pools)}, originals {sorted(originals)}")
        if any(original.ledger is not None and not fits(original.ledger, encoder) for original in run.originals):
            raise ValueError("counts of other columns than those that are watched")
        ledgers = {original.name: original.ledger for original in run.originals}
        return RunState(
            settings=run.settings,
            encoder=encoder,
            recursion=stored,
            originals=run.originals,
            alarms={name: _alarm_from_dict(alarm) for name, alarm in progress.alarms.items()},
            windows=progress.windows,
            cursor=None if progress.cursor is None else Cursor.from_dict(progress.cursor),
            now=run.now,
            skipped=skipped_in_a_row(run.records),
            pools={name: Pool.from_dict(pool, ledgers[name]) for name, pool in progress.pools.items()},
        )
    except TrackerError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TrackerError(f"{run.path}: damaged, its parts do not fit together ({error})") from None


def encoder_of(run: Run) -> TableEncoder:
    """Return the encoder of a run."""
    try:
        return TableEncoder.from_dict(dict(run.encoder))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise TrackerError(f"{run.path}: damaged, its encoder is not one ({error})") from None


def with_settings(state: RunState, given: Mapping[str, Any], path: str) -> tuple[RunState, list[str]]:
    """Return the state with the settings given when its run goes on, and a remark about each that changed."""
    changed = state.settings.differs(given)
    known = settings_of(Settings)
    fixed = [
        Message("{option}, not {other}", option=Option(name, then), other=Value(name, now))
        for name, (then, now) in changed.items()
        if not known[name].changeable
    ]
    if fixed:
        raise OptionError(
            "{file} was begun with {fixed}: leave that out, or begin another file",
            file=path,
            fixed=Message.join("; ", fixed),
        )
    settings = Settings.from_dict({**state.settings.to_dict(), **given})
    encoder = replace(state.encoder, schema=settings.schema)
    remarks = [f"from here on {name}={now!r} instead of {then!r}" for name, (then, now) in changed.items()]
    return replace(state, settings=settings, encoder=encoder), remarks


def _alarm_to_dict(alarm: AlarmMemory) -> dict[str, Any]:
    return {**alarm._asdict(), "signal": str(alarm.signal), "weights": list(alarm.weights)}


def _alarm_from_dict(data: Mapping[str, Any]) -> AlarmMemory:
    numbers = [*data["weights"], *(value for name, value in data.items() if name not in ("signal", "weights"))]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(f"an alarm remembers {numbers}, which are not numbers")
    return AlarmMemory(**{**data, "signal": Signal(data["signal"]), "weights": tuple(data["weights"])})

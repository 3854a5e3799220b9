"""Signals, their causes as codes, and the sentence that says them: programs compare codes, people read the sentence.

Each sentence stands here once; whoever decides names the causes and hands over the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

__all__ = ["OF_COLUMNS", "OF_STEPS", "Cause", "Signal", "reason"]


class Signal(StrEnum):
    """Signal of a decision."""

    NORMAL = "normal"
    WARNING = "warning"
    ALARM = "alarm"


class Cause(StrEnum):
    """Cause of a signal, or of none.

    >>> Cause("back_below") is Cause.BACK_BELOW
    True
    """

    WITHIN = "within"  # the drift is below its warning limit
    ABOVE_WARNING = "above_warning"  # the drift is above its warning limit, but not above its alarm limit
    ABOVE_LIMIT = "above_limit"  # the drift is above its alarm limit
    STREAK = "streak"  # windows above the limit are counted: an alarm needs several in a row
    STEP_ABOVE_WARNING = "step_above_warning"  # the step from the previous window is above its warning limit
    ABRUPT_STEP = "abrupt_step"  # the step from the previous window is above its alarm limit
    STEP_OPEN = "step_open"  # the step from the previous window may be larger than what was measured of it
    NEW_VALUES = "new_values"  # a column has values that the original did not have at all
    COLUMN_MOVED = "column_moved"  # the test of a column or a pair speaks, though the drift is within its limits
    SHARE_MOVED = "share_moved"  # a share of rows has moved for certain, which the estimate does not show
    BACK_BELOW = "back_below"  # drift and step are below their limits, the alarm ends after more such windows
    ALARM_CONTINUES = "alarm_continues"  # nothing in this window raised the alarm, but it has not ended yet
    ALARM_ENDED = "alarm_ended"  # an alarm stood before this window, and does so no longer
    WARM_UP = "warm_up"  # windows at the start give no signal
    NO_ERROR_BAR = "no_error_bar"  # nothing was decided for lack of a standard error
    UNSURE = "unsure"  # the drift is beyond the tolerance, but has no standard error
    DOUBTED = "doubted"  # the drift is beyond the tolerance, and its standard error is not to be trusted
    WIDE_INTERVAL = "wide_interval"  # the drift is far beyond the tolerance, but noise could make it as large
    LOWER_BOUND = "lower_bound"  # the drift may be larger than what was measured, by an unknown amount
    UNSETTLED = "unsettled"  # the drift rests on a step that could not be measured
    NO_ROWS = "no_rows"  # nothing was measured: the window is empty
    TOO_FEW_ROWS = "too_few_rows"  # nothing was measured: too few rows for the columns
    FIT_FAILED = "fit_failed"  # nothing was measured: the fit did not converge
    SIGNAL_STANDS = "signal_stands"  # nothing was decided, so the signal is that of the previous window
    BEGAN = "began"  # the run began with this window
    JOINED = "joined"  # an original joined with these rows
    INTERVAL_WITHIN = "interval_within"  # one comparison: the whole interval is below the tolerance
    INTERVAL_REACHES = "interval_reaches"  # one comparison: the interval reaches beyond the tolerance
    INTERVAL_BEYOND = "interval_beyond"  # one comparison: the whole interval is beyond the tolerance
    NO_INTERVAL = "no_interval"  # one comparison: there is no interval, the doubts say why


OF_COLUMNS = frozenset({Cause.NEW_VALUES, Cause.COLUMN_MOVED, Cause.SHARE_MOVED})
"""Causes of a signal that are columns or pairs, whatever the drift of all columns together."""
OF_STEPS = frozenset({Cause.STEP_ABOVE_WARNING, Cause.ABRUPT_STEP, Cause.STEP_OPEN})
"""Causes of a signal that are the step from the previous window, whatever the drift from the original."""

_INTERVAL = "the {percent} interval, {low} to {high},"
_UNMEASURED = "nothing was measured"
_SENTENCES = {  # causes not listed say nothing of their own
    Cause.WITHIN: "drift of {drift} nats is within {bound}",
    Cause.ABOVE_WARNING: "drift of {drift} nats is beyond {bound}",
    Cause.ABOVE_LIMIT: "drift of {drift} nats is beyond {bound}",
    Cause.STEP_ABOVE_WARNING: "abrupt change: step of {step} nats is beyond {step_bound}",
    Cause.ABRUPT_STEP: "abrupt change: step of {step} nats is beyond {step_bound}",
    Cause.STEP_OPEN: "the step is at least {step} nats, perhaps more: the model did not hold all of it",
    Cause.NEW_VALUES: "{column}: {event}, at least {least} nats",
    Cause.COLUMN_MOVED: "{named}, though all columns together are within their limits",
    Cause.SHARE_MOVED: "{column}: {event}, at least {least} nats",
    Cause.BACK_BELOW: "back below the limits, the alarm ends after {needed} such windows",
    Cause.WARM_UP: "warming up, window {seen} of {warm_up}",
    Cause.NO_ERROR_BAR: "no error bar for this window, so nothing was decided",
    Cause.UNSURE: "drift of {drift} nats has no error bar, see the doubts",
    Cause.DOUBTED: "drift of {drift} nats is beyond the tolerance; its error bar is doubted, see the doubts",
    Cause.WIDE_INTERVAL: "drift of {drift} nats, interval {low} to {high}, is far beyond {tolerance}; "
    "noise alone could reach {bound}: enlarge the window to be sure",
    Cause.LOWER_BOUND: "drift is at least {drift} nats, perhaps more: the model does not hold all of it",
    Cause.UNSETTLED: "drift of about {drift} nats rests on a step that could not be measured: known is {low} or more",
    Cause.NO_ROWS: _UNMEASURED,
    Cause.TOO_FEW_ROWS: _UNMEASURED,
    Cause.FIT_FAILED: _UNMEASURED,
    Cause.BEGAN: "drift is measured from this window on",
    Cause.JOINED: "drift is measured from these rows on",
    Cause.INTERVAL_WITHIN: f"{_INTERVAL} lies within {{tolerance}}",
    Cause.INTERVAL_REACHES: f"{_INTERVAL} reaches beyond {{tolerance}}",
    Cause.INTERVAL_BEYOND: f"{_INTERVAL} lies beyond {{tolerance}}",
    Cause.NO_INTERVAL: "no error bar, so nothing was decided: {why}",
}
_CONTINUED = {  # said of the cause before, not as a sentence of their own
    Cause.STREAK: " ({streak} in a row, {needed} needed)",
    Cause.SIGNAL_STANDS: ": {signal} stands",
}


def reason(causes: Sequence[Cause], **numbers: object) -> str:
    """Say causes in one sentence.

    Arguments:
        causes: causes in the order they are to be named.
        numbers: numbers and names that the sentences of these causes hold, as they are to be read: whoever has the
            estimates knows how many digits these support.

    >>> reason([Cause.ABOVE_LIMIT, Cause.STREAK], drift="0.051", bound="0.040", streak=1, needed=2)
    'drift of 0.051 nats is beyond 0.040 (1 in a row, 2 needed)'
    """
    text = ""
    for cause in causes:
        if cause in _CONTINUED:
            text += _CONTINUED[cause].format(**numbers)
        elif cause in _SENTENCES:
            text += ("; " if text else "") + _SENTENCES[cause].format(**numbers)
    return text

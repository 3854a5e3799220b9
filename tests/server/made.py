"""Tracker files made by hand, in milliseconds: their Records are as plausible as those of the monitor."""

import math
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor import Moved, Original, Record, Settings, Tracker
from driftline.monitor._tracker import Progress

NASTY = "<script>alert(1)</script>"
DAY = datetime(2025, 1, 6, tzinfo=UTC)
SETTINGS = Settings(time_column="ts", every="1d", tolerance=0.1)


def drift(value, error=0.02, doubts=()):
    return Estimate(value, error, max(value - 2 * error, 0.0), value + 2 * error, 0.95, floor=value / 3, doubts=doubts)


def record(window, value, *, original="original", timed=True, **changes):
    """Return a measured window: an alarm beyond 0.15 nats."""
    signal = Signal.ALARM if value > 0.15 else Signal.NORMAL
    begins = DAY + timedelta(days=window)
    base = Record(
        window=window,
        original=original,
        status="measured",
        rows=500,
        first_row=500 * window,
        start=begins.isoformat() if timed else None,
        end=(begins + timedelta(days=1)).isoformat() if timed else None,
        divergences={"reverse_kl": drift(value)},
        step=drift(0.01, 0.005),
        signal=signal,
        causes=(Cause.ABOVE_LIMIT if signal == Signal.ALARM else Cause.WITHIN,),
        reason=f"drift of {value:.3g} nats is {'beyond' if signal == Signal.ALARM else 'within'} 0.15",
        warning_limit=0.13,
        alarm_limit=0.15,
        step_limit=0.1,
        columns=(Moved(NASTY, drift(value), 1e-9, f"median from 2 to {NASTY}"),) if signal == Signal.ALARM else (),
        effective_sample_size=500 * math.exp(-value),
        late_rows=3 if window % 10 == 5 else 0,
        digest=f"{window:08x}",
        seconds=0.25,
        diagnostics={"overlap": 300.0, "new_values": 0.0},
    )
    return replace(base, **changes)


def began(window=0, original="original", timed=True):
    whole = record(window, 0.0, original=original, timed=timed)
    return Record(window, original, "original", 500, whole.first_row, whole.start, whole.end)


def bare(window, **changes):
    """Return a window whose interval was withheld."""
    nan, few = math.nan, Doubt(DoubtCode.DEPENDENT_ROWS, "rows depend on each other")
    estimate = Estimate(0.04, nan, nan, nan, 0.95)
    return record(window, 0.04, divergences={"reverse_kl": estimate}, doubts=(few,), **changes)


def bound(window, **changes):
    """Return a window whose drift is a lower bound."""
    doubt = Doubt(DoubtCode.MODEL_MISSES, "the model misses a part")
    estimate = Estimate(0.4, 0.02, 0.36, math.inf, 0.95, floor=0.1, lower_bound=True)
    return record(window, 0.4, divergences={"reverse_kl": estimate}, doubts=(doubt,), **changes)


def write(path, records, originals=("original",), settings=SETTINGS):
    """Write a tracker file with these Records."""
    joined = [Original(name, 0, 500, None, {}).to_dict() for name in originals]
    run = {"created": DAY.isoformat(), "source": f"orders {NASTY}", "settings": settings.to_dict(), "encoder": {}}
    with Tracker(path) as tracker:
        tracker.commit(run, records, b"state", Progress(originals=joined, windows=len(records)))
    return Path(path)


def append(path, records):
    """Commit further Records to a tracker file."""
    with Tracker(path) as tracker:
        content = tracker.read()
        tracker.commit(content.description, records, content.state, content.progress)


def quiet(windows=12, **given):
    return [began(**given), *(record(w, 0.01 + 0.005 * (w % 3), **given) for w in range(1, windows))]


if __name__ == "__main__":  # a writer to be watched: python -m tests.server.made PATH WINDOWS SECONDS
    place, windows, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    for number in range(windows):
        append(place, [record(12 + number, 0.3)])
        print(12 + number, flush=True)
        time.sleep(seconds)

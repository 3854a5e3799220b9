"""Names of windows in sentences."""

from driftline.report._histories import window_name


def test_windows_are_named_by_their_length(runs):
    weekly = runs.record(3, 0.1)
    assert window_name(weekly, runs.WEEKLY) == "the week of 27 May 1996 (window 3)"
    assert window_name(weekly, runs.Settings(time_column="t", every="1mo")) == "May 1996 (window 3)"
    assert window_name(weekly, runs.Settings(time_column="t", every="1h")) == "27 May 1996 00:00 (window 3)"
    assert window_name(runs.record(3, 0.1, settings=runs.ROWS), runs.ROWS) == "window 3"

"""The views: they fit the terminal, say signals in words, and nothing in a file can steer the terminal."""

import io
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from driftline import _wording as words
from driftline._wording import clean
from driftline.alarms import Cause, Signal
from driftline.inference import DIVERGENCES, Doubt, DoubtCode, Estimate
from driftline.monitor import Marginal, Moved, MovedPair, Record, Settings, Without
from driftline.terminal import Command, Heading, JsonLines, Lines, Screen, heading, reading, say
from driftline.terminal._lines import Remarks, marks, moved, moves_of, sparkline, when

HEAD = Heading(
    "orders/*.parquet, 26 files", "windows of 1w by ordered_at", "run.driftline", "KL(current‖original)", 0.1, 130_000
)


def estimate(value, error=0.01):
    return Estimate(value, error, max(0.0, value - 2 * error), value + 2 * error, 0.95)


def record(t, value=0.5, signal=Signal.ALARM, **parts):
    columns = (
        Moved("payment", estimate(0.3), 1e-9, "new value 'wallet', 16 %"),
        Moved("amount", estimate(0.2), 1e-7, "median from 12 to 15"),
    )
    known = {
        "original": "original",
        "status": "measured",
        "rows": 5000,
        "first_row": 5000 * t,
        "start": f"2025-01-{1 + t:02d}T00:00:00+00:00",
        "divergences": {"reverse_kl": estimate(value)},
        "step": estimate(0.003),
        "signal": signal,
        "reason": "because",
        "columns": columns,
        "effective_sample_size": 2345.6,
        "seconds": 0.2,
    }
    return Record(window=t, **{**known, **parts})


def drawn(view_of, records, width, height=24):
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    view = view_of(HEAD, console)
    view.columns(["payment", "amount", "age"], {"ordered_at": "the time column"})
    for one in records:
        view.add(one)
    with console.capture() as capture:
        console.print(view.render())
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_screen_fits_and_says_what_matters(width):
    first = record(0, status="original", signal=Signal.NORMAL, divergences={}, columns=(), step=None)
    lines = drawn(Screen, [first, *(record(t, 0.01 * t) for t in range(1, 28))], width)
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) <= 24
    last = next(line for line in lines if line.lstrip().startswith("27 "))
    assert "ALARM" in last
    assert "0.270 [0.250, 0.290]" in last
    assert "payment 0.300" in last
    text = "\n".join(lines)
    assert ("2025-01-28" in last) == (width >= 80)
    assert ("amount 0.200" in last) == (width >= 80)
    assert ("2,346" in last) == (width >= 100)
    assert "left out: ordered_at" in text
    assert "highest 0.270" in text
    assert "of 130,000 rows" in text


def test_screen_of_several_originals_names_them():
    pairs = [record(t, original=name) for t in range(1, 4) for name in ("original", "model-2")]
    text = "\n".join(drawn(Screen, pairs, 100))
    assert text.count("model-2") >= 4  # three rows and a sparkline
    assert "drift from model-2" in text


def test_screen_at_rest_says_skipped_and_began():
    began = record(0, status="original", signal=Signal.NORMAL, divergences={}, step=None, columns=())
    gap = record(1, status="skipped", rows=0, divergences={}, step=None, columns=(), notes=("no rows for 3 windows",))
    text = "\n".join(drawn(Screen, [began, gap], 80))
    assert "began" in text
    assert "skipped" in text
    assert "no rows for 3 windows" in text


def test_notes_of_a_kind_are_shown_once():
    records = [record(t, notes=(f"payment: {90 + t} rows hold values not seen at first",)) for t in range(1, 9)]
    text = "\n".join(drawn(Screen, records, 80))
    assert text.count("not seen at first") == 1
    assert "in 8 windows since window 1: payment: 98 rows" in text


def test_live_screen_runs():
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    with Screen(HEAD, console) as view:
        view.add(record(1))
        view.note("orders-2.csv: not readable yet")
    out = console.file.getvalue()
    assert "ALARM" in out
    assert "not readable yet" in out


def test_lines():
    console = Console(file=io.StringIO(), width=80)
    with Lines(HEAD, console) as view:
        view.columns(["amount"], {"id": "a counter"})
        late = "12 rows came after their window was closed, and were left out"  # the Record itself says so
        view.add(record(7, late_rows=12, notes=("amount: 3 values are infinite", late)))
        view.note("something else")
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "watching orders/*.parquet, 26 files, windows of 1w by ordered_at, tracker run.driftline"
    assert lines[2] == "left out: id"
    assert lines[3] == (
        "window 7  2025-01-08  5,000 rows  drift 0.500 [0.480, 0.520]  step 0.003  ALARM  payment 0.300, amount 0.200"
    )
    assert lines[4:] == [
        "  payment moved by itself: 0.300 [0.280, 0.320] nats, new value 'wallet', 16 %",
        "  amount moved by itself: 0.200 [0.180, 0.220] nats, median from 12 to 15",
        "  window 7: amount: 3 values are infinite",
        "  window 7: 12 rows came after their window was closed, and were left out",
        "  something else",
    ]


def test_json_lines_are_records_and_nothing_else():
    console = Console(file=io.StringIO(), width=80)
    with JsonLines(HEAD, console) as view:
        view.columns(["amount"], {})
        view.add(record(1))
        view.note("not for machines")
        view.add(record(2))
    lines = console.file.getvalue().splitlines()
    assert [Record.from_json(line) for line in lines] == [record(1), record(2)]
    assert json.loads(lines[0])["window"] == 1


def test_only_what_moved_is_named():
    assert moved(record(1, signal=Signal.NORMAL, columns=())) == ""
    assert moved(record(1, signal=Signal.NORMAL)) == "payment 0.300, amount 0.200"  # within the tolerance, but it moved
    assert moved(record(1), 90).startswith("payment 0.300 (new value 'wallet', 16 %), amount 0.200 (median")
    pair = MovedPair(("amount", "age"), 0.05, 1e-6, "rank correlation from 0.30 to 0.52")
    assert moved(record(1, columns=(), pairs=(pair,))) == "amount with age 0.05 (rank correlation from 0.30 to 0.52)"
    assert moved(record(1, columns=(), unexplained=0.5)) == "no column alone"
    assert moved(record(1, columns=())) == ""  # nobody knows


def test_columns_that_do_not_fit_are_counted():
    many = tuple(Moved(f"col{k}", estimate(0.3), 1e-9, "missing from 0 % to 11 %") for k in range(12))
    causes = (Cause.NEW_VALUES,)
    text = moved(record(1, columns=many, causes=causes), 60)
    assert text == "col0 0.300 (missing from 0 % to 11 %), col1 0.300, +10 more"
    assert moved(record(1, columns=many), 45) == "col0 0.300, col1 0.300, col2 0.300, +9 more"
    wide = replace(many[0], column="a name " * 12)
    text = moved(record(1, columns=(wide, *many), causes=causes), 60)
    assert text == "a name a name a… 0.300 (missing from 0 % to 11 %), +12 more"
    assert moved(record(1, columns=(many[0], wide, *many)), 60).endswith("a name a name a name a… 0.300, +12 more")


def test_a_step_back_names_the_columns_that_it_brought_back():
    away = record(1)
    marginals = {"payment": Marginal(0.0, 0.9, 0.0, 0.0)}
    back = record(2, 0.0, columns=(), causes=(Cause.ABRUPT_STEP,), unexplained=0.0, marginals=marginals)
    assert moved(back, before=away) == "payment as in the original again (abrupt step)"
    assert moves_of(back, away) == [
        "payment no longer differs from the original; before the step: new value 'wallet', 16 %"
    ]
    after = replace(
        back, window=3, warning_limit=0.1, signal=Signal.WARNING, causes=(Cause.UNSETTLED,), doubts=(DOUBT,)
    )
    assert moved(after, before=back) == "no column differs; an earlier step was not measured"
    assert moved(replace(after, doubts=())) == "no column alone"


def test_notes_of_columns_whose_names_end_in_numbers_are_all_said():
    columns = tuple(Moved(f"col{k}", estimate(0.3), 1e-9, "it moved") for k in range(3))
    notes = tuple(f"col{k}: 9.{k} % of the values are missing" for k in range(3))
    assert Remarks().add(record(1, columns=columns, notes=notes)) == list(notes)


def test_what_moved_is_told_once():
    first, again = record(1), record(2)
    assert [line.split()[0] for line in moves_of(first, None)] == ["payment", "amount"]
    assert moves_of(again, first) == []
    hiding = replace(again, without=Without("year", 0.02, new=True), columns=(*again.columns, again.columns[0]))
    assert moves_of(replace(hiding, columns=()), first) == []
    assert "without year, about 0.02 nats are left" in moves_of(hiding, None)[-1]


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=40), st.floats(0.01, 1.0)), min_size=1, max_size=6),
    st.integers(8, 60),
)
def test_moved_fits(parts, width):
    found = record(1, columns=tuple(Moved(name, estimate(nats), 1e-9, "it moved") for name, nats in parts))
    text = moved(found, width)
    assert cell_len(text) <= width
    assert text.isprintable()
    assert text


@given(st.text())
def test_nothing_steers_the_terminal(text):
    assert clean(text).isprintable()


def test_markup_in_names_is_text():
    evil = record(1, columns=(Moved("[red]x[/red]\x1b[2J", estimate(0.3), 1e-9, "[b]\x1b[2J"),))
    text = "\n".join(drawn(Screen, [evil], 120))
    assert "[red]x[/red]" in text
    assert "\x1b[2J" not in text


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=300), st.integers(1, 100))
def test_sparkline_fits(values, width):
    assert len(sparkline(values, width)) == min(len(values), width)


def test_readings_without_intervals_and_times():
    assert reading(None) == "–"
    assert reading(Estimate(1.0, math.nan, math.nan, math.nan, 0.95)) == "1 [no interval]"
    assert when(record(1, start="2025-01-02T14:30:00+00:00")) == "2025-01-02 14:30"
    assert when(record(1, start=None)) == "10,000"
    assert when(record(1, start="not a time")) == "not a time"


def test_heading_of_settings():
    head = heading(Settings(time_column="ts", every="1d", divergences=("js",)), "a.csv", None)
    assert head == Heading("a.csv", "windows of 1d by ts", None, "Jensen-Shannon divergence", 0.1, None)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_a_divergence_has_one_name_here_and_in_reports(kind):
    assert heading(Settings(window=500, divergences=(kind,)), "a.csv", None).measure == words.measure(kind)


def test_one_is_not_many():
    console = Console(file=io.StringIO(), width=80)
    with Lines(HEAD, console) as view:
        view.columns(["amount"], {})
        view.add(record(0, rows=1))
    assert "1 column: amount" in console.file.getvalue()
    assert "  1 row  " in console.file.getvalue()
    lines = drawn(Screen, [record(0, rows=1)], 100)
    assert any("0% of 130,000 rows in 1 window" in line for line in lines)
    assert not any("1 windows" in line for line in lines)


def test_commands_to_paste_are_not_broken():
    console = Console(file=io.StringIO(), width=40, force_terminal=True, color_system=None)
    command = Command("for a report: driftline report 'a folder with a long name/run.driftline'")
    say(console, command, "a sentence that is longer than forty characters is wrapped")
    assert console.file.getvalue().splitlines()[0].rstrip() == command
    assert len(console.file.getvalue().splitlines()) == 3


DOUBT = Doubt(DoubtCode.WEAK_STEP, "the step at t=3 could not be measured, and later values build upon it")
NEW = Doubt(DoubtCode.CONSTANT_MOVED, "column(s) 'plan=other' were constant", ("plan=other",))


def test_doubts_mark_every_line_and_are_said_once():
    console = Console(file=io.StringIO(), width=80)
    with Lines(HEAD, console) as view:
        for t in range(1, 6):
            view.add(record(t, doubts=(DOUBT,) if t >= 3 else (), notes=(f"amount: {t} values are infinite",)))
    lines = console.file.getvalue().splitlines()
    assert sum("  ALARM  payment 0.300" in line and "  ? weak_step" in line for line in lines) == 3
    assert sum(str(DOUBT) in line for line in lines) == 1
    assert sum("values are infinite" in line for line in lines) == 2  # at first, and counted in the end
    assert "  in 3 windows since window 3: weak_step" in lines
    assert "  in 5 windows since window 1: amount: 5 values are infinite" in lines
    screen = drawn(Screen, [record(t, doubts=(DOUBT,)) for t in range(1, 4)], 160)
    assert sum("ALARM ?" in line and "? weak_step" in line for line in screen) == 3
    assert any(line.startswith("· in 3 windows since window 1: the step at t=3") for line in screen)


def test_what_was_not_said_for_long_is_said_again():
    remarks = Remarks()
    assert remarks.add(record(1, notes=("3 rows came late",))) == ["3 rows came late"]
    assert remarks.add(record(5, notes=("4 rows came late",))) == []
    assert remarks.add(record(30, notes=("5 rows came late",))) == ["5 rows came late"]


def test_new_values_are_a_finding_not_a_doubt():
    found = record(1, doubts=(NEW,), diagnostics={"new_values": 0.02})
    assert marks(found) == "+ new values in 2 %"
    assert marks(record(1, doubts=(DOUBT, NEW))) == "? weak_step  + new values"
    assert not any("?" in line for line in drawn(Screen, [found], 120))


def test_a_distance_is_never_shown_below_zero():
    quiet = Estimate(-0.002, 0.0015, -0.002, 0.0, 0.95)
    assert reading(quiet) == "0.0000 [0, 0.0029]"  # an interval of nothing would promise too much
    assert reading(Estimate(0.002, 0.0015, -0.0002, 0.006, 0.95)) == "0.0020 [0, 0.0060]"
    assert reading(Estimate(-0.5, math.nan, -math.inf, math.inf, 0.95)) == "0 [no interval]"
    assert reading(Estimate(1.35, 0.1, 1.14, math.inf, 0.95, lower_bound=True)) == "≥ 1.35 [1.14, ∞]"
    assert quiet.value == -0.002  # what is kept does not change

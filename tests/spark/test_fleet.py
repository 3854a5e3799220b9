"""A fleet: how keys stand, from Records alone; nothing that was not measured is fine."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline import Monitor, Record
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor import Marginal, Moved, Settings, Status
from driftline.report import findings
from driftline.spark import fleet, watch
from driftline.spark._fleet import standings

SETTINGS = Settings(window=300)


def quiet(window, **parts):
    """Return a Record of a window in which nothing happens, but for the parts given."""
    drift = Estimate(0.001, 0.01, 0.0, 0.02, 0.95)
    tested = {name: Marginal(0.0, 0.5, 0.0, 0.0) for name in ("amount", "kind")}
    usual = {"divergences": {"reverse_kl": drift}, "step": drift, "marginals": tested, "effective_sample_size": 290.0}
    status = parts.pop("status", Status.MEASURED if window else Status.ORIGINAL)
    return Record(
        window, "original", status, parts.pop("rows", 300), 300 * window, **{**(usual if window else {}), **parts}
    )


def loud(window, **parts):
    """Return a Record of a window in alarm."""
    drift = Estimate(0.5, 0.02, 0.46, 0.54, 0.95)
    moved = (Moved("amount", drift, 1e-9, "median from 1 to 2"),)
    return quiet(window, signal="alarm", reason="far", divergences={"reverse_kl": drift}, columns=moved, **parts)


def table(*records, error=None):
    """Return Records as ``watch`` returns those of one key; the error that ended it comes last."""
    lines = [
        {"original": r.original, "window": r.window, "status": str(r.status), "signal": str(r.signal)}
        | {"record": r.to_json(), "error": None}
        for r in records
    ]
    if error is not None:
        lines.append(dict.fromkeys(("original", "window", "status", "signal", "record")) | {"error": error})
    names = ("original", "window", "status", "signal", "record", "error")
    return pa.table({n: pa.array([x[n] for x in lines], pa.int64() if n == "window" else pa.string()) for n in names})


def stands(*records, error=None):
    (found,) = standings(table(*records, error=error), SETTINGS)
    return found


def test_an_alarm_has_its_window_its_interval_and_its_columns():
    found = stands(quiet(0), loud(1), quiet(2), loud(3), loud(4))
    assert (found["outcome"], found["since"], found["window"], found["measured"]) == ("alarm", 3, 4, 4)
    assert (found["drift"], found["low"], found["high"]) == (0.5, 0.46, 0.54)
    assert (found["columns"], found["tested"]) == (["amount"], ["amount", "kind"])
    assert found["reason"] == "far"


def test_records_in_any_order_and_twice_count_once():
    wanted = stands(quiet(0), quiet(1), loud(2), loud(3))
    assert stands(loud(3), quiet(1), loud(2), loud(3), quiet(0), quiet(1)) == wanted


def test_a_quiet_key_is_normal_and_a_doubted_one_is_not():
    calm = stands(quiet(0), quiet(1), quiet(2))
    assert (calm["outcome"], calm["trust"], calm["since"], calm["columns"]) == ("normal", "good", None, [])
    doubt = (Doubt(DoubtCode.FEW_ROWS, "few rows"),)
    now = stands(quiet(0), quiet(1), quiet(2, doubts=doubt))
    assert (now["outcome"], now["doubts"]) == ("unsure", ["few_rows"])
    before = stands(quiet(0), quiet(1, doubts=doubt), quiet(2))  # later estimates build on that step
    assert before["outcome"] == "unsure"
    rough = Estimate(0.1, 0.4, 0.0, 0.9, 0.95)
    assert stands(quiet(0), quiet(1, divergences={"reverse_kl": rough}))["outcome"] == "unsure"


@pytest.mark.parametrize(
    ("records", "error", "outcome"),
    [
        ((), "ValueError: 5 rows are too few", "broken"),
        ((quiet(0), quiet(1), quiet(2)), "ValueError: column 'amount' is text", "broken"),
        ((quiet(0),), None, "waiting"),
        ((quiet(0), *(quiet(t, status=Status.SKIPPED, rows=4, divergences={}) for t in (1, 2))), None, "blind"),
        ((quiet(0), quiet(1), *(quiet(t, status=Status.SKIPPED, divergences={}) for t in (2, 3))), None, "blind"),
        ((quiet(0), quiet(1, divergences={"reverse_kl": Estimate(0.0, *[float("nan")] * 3, 0.95)})), None, "blind"),
    ],
)
def test_what_was_not_measured_is_not_fine(records, error, outcome):
    found = stands(*records, error=error)
    assert (found["outcome"], found["trust"]) == (outcome, "poor")
    assert found["columns"] == found["tested"] == []
    assert error is None or found["reason"] == error


def test_records_that_cannot_be_read_are_not_fine():
    spoilt = table(quiet(0), quiet(1))
    lines = spoilt.to_pylist()
    lines[1]["record"] = lines[1]["record"][:-20]
    (found,) = standings(pa.Table.from_pylist(lines, spoilt.schema), SETTINGS)
    assert (found["outcome"], found["trust"]) == ("broken", "poor")
    lines[1]["record"] = None
    (found,) = standings(pa.Table.from_pylist(lines, spoilt.schema), SETTINGS)
    assert found["outcome"] == "broken"


def went_quiet(window):
    return {"window": window, "status": "quiet", "signal": "normal", "error": "no rows since 2025-02-01"}


@pytest.mark.parametrize(("window", "outcome"), [(2, "quiet"), (3, "quiet"), (1, "normal")])
def test_a_key_is_quiet_until_it_has_had_another_window(window, outcome):
    before = table(quiet(0), quiet(1), quiet(2))
    lines = [{"original": None, "record": None, **went_quiet(window)}, *before.to_pylist()]
    (found,) = standings(pa.Table.from_pylist(lines, before.schema), SETTINGS)
    assert found["outcome"] == outcome
    assert (found["reason"] == "no rows since 2025-02-01") == (outcome == "quiet")


def test_a_key_without_a_window_may_be_quiet_too():
    lines = [{"original": None, "record": None, **went_quiet(None)}]
    (found,) = standings(pa.Table.from_pylist(lines, table(quiet(0)).schema), SETTINGS)
    assert (found["outcome"], found["original"]) == ("quiet", "original")


@pytest.mark.parametrize(
    ("expected", "outcome"), [("2025-01-20", "normal"), ("2025-01-21T00:00:00Z", "quiet"), (None, "normal")]
)
def test_a_key_whose_windows_end_too_early_is_quiet(expected, outcome):
    ends = [f"2025-01-{6 + 7 * t:02d}T00:00:00+00:00" for t in range(3)]
    records = [quiet(t, end=end) for t, end in enumerate(ends)]
    empty = quiet(3, end="2025-01-27T00:00:00+00:00", status=Status.SKIPPED, rows=0, divergences={})
    for given in (records, [*records, empty]):  # a window without rows shows no life
        (found,) = standings(table(*given), SETTINGS, expected)
        assert found["outcome"] == outcome
    (found,) = standings(table(quiet(0), quiet(1)), SETTINGS, "2025-01-20")
    assert found["outcome"] == "quiet"  # rows tell no time


def test_of_two_records_of_the_first_window_the_one_that_began_counts():
    """A key has a skipped first window, until there are rows enough for one."""
    skipped = quiet(0, status=Status.SKIPPED, rows=3, signal="warning")
    for records in ((skipped, skipped, quiet(0), quiet(1)), (quiet(0), skipped, quiet(1))):
        assert stands(*records)["outcome"] == "normal"
    assert stands(skipped, skipped)["outcome"] in ("waiting", "blind")


def test_an_alarm_stands_though_the_key_broke_and_is_not_trusted():
    found = stands(quiet(0), loud(1), error="ValueError: no")
    assert (found["outcome"], found["trust"], found["reason"]) == ("alarm", "poor", "ValueError: no")


def test_originals_are_judged_apart():
    other = [dataclasses.replace(record, original="summer") for record in (quiet(0), quiet(1))]
    found = standings(table(quiet(0), loud(1), *other), SETTINGS)
    assert [(x["original"], x["outcome"]) for x in found] == [("original", "alarm"), ("summer", "normal")]


def test_a_key_stands_as_the_report_says_of_its_run():
    """Eleven windows, so that the verdict of the last ten measured ones is that of all."""
    rng = np.random.default_rng(3)
    for shift in (0.0, 0.1, 0.3):
        monitor = Monitor(window=300)
        rows = [pd.DataFrame(rng.normal(shift * (t > 5), 1.0, (300, 2)), columns=["a", "b"]) for t in range(12)]
        records = list(monitor.watch(pd.concat(rows)))
        ((history, wanted),) = findings(monitor.run).verdicts
        found = stands(*records)
        assert (found["outcome"], found["trust"]) == (str(wanted.outcome), str(wanted.trust))
        if wanted.outcome in ("alarm", "warning"):
            assert found["since"] == history.since.window


def test_a_fleet_is_summed_up_by_spark(spark):
    rng, parts = np.random.default_rng(2), []
    for shop in ("still", "moved", "also", "Köln 'n'"):
        for t in range(4):
            rows = rng.normal([t > 1 and shop in ("moved", "also"), 0.0], 1.0, (300, 2))
            parts.append(pd.DataFrame(rows, columns=["a", "b"]).assign(shop=shop, at=np.arange(300) + 300 * t))
    parts.append(pd.DataFrame({"a": [0.0], "b": [0.0], "shop": "new", "at": 0}))
    records = watch(spark.createDataFrame(pd.concat(parts)), "shop", order="at", window=300).cache()
    found = fleet(records)
    keys = found.keys.toPandas().set_index("shop")
    assert dict(keys["outcome"]) == {
        **{"still": "normal", "Köln 'n'": "normal", "moved": "alarm", "also": "alarm"},
        "new": keys["outcome"]["new"],
    }
    assert keys["outcome"]["new"] in ("broken", "waiting")
    assert list(keys["columns"]["moved"]) == ["a"]
    assert keys["since"]["moved"] == 2
    columns = {row["column"]: (row["keys"], row["alarms"], row["of"]) for row in found.columns.collect()}
    assert columns == {"a": (2, 2, 4), "b": (0, 0, 4)}
    totals = {row["outcome"]: row["keys"] for row in found.totals.collect()}
    assert totals == {"alarm": 2, "normal": 2, keys["outcome"]["new"]: 1}
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['record'\]"):
        fleet(records.drop("record"))
    with pytest.raises(ValueError, match="is not a time"):
        fleet(records, expected="soon")
    with pytest.raises(ValueError, match="key= needs a column"):
        fleet(records.drop("shop"))
    with pytest.raises(ValueError, match="not streams"):
        fleet(spark.readStream.format("rate").load())

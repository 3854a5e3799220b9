"""Summaries for people: shares that add up, round edges, nothing about single rows."""

import datetime as dt
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftline.tables import Rows, TableEncoder, open_ledger
from driftline.tables._categories import CategoricalColumn
from driftline.tables._numeric import NumericColumn
from driftline.tables._summaries import bin_edges, numeric_summary

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def total(summary):
    return sum(summary["shares"]) + summary.get("other", 0.0) + summary["missing"]


@given(st.lists(FINITE | st.integers(-1000, 1000).map(float), min_size=1, max_size=60), st.floats(1e-308, 1e308))
@example([1.7e308, -1.7e308], 1e308)
@example([1e16, 1e16 + 2.0], 1.0)
@example([5e-324, 0.0], 1e-308)
@example([1e308], 1e308)
@example([1.7976931348623157e308], 1.0)
def test_edges_are_in_order_and_cover_the_middle(values, scale):
    ordered = np.sort(values)
    edges = np.array(bin_edges(ordered, scale))
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0.0).all()
    assert 1 <= len(edges) <= 45
    last = len(ordered) - 1
    low, high = ordered[int(np.floor(0.01 * last))], ordered[int(np.ceil(0.99 * last))]
    slack = 1e-12 * max(abs(low), abs(high))
    assert 0.5 * edges[0] <= 0.5 * low + slack
    assert 0.5 * edges[-1] >= 0.5 * high - slack
    found = numeric_summary(ordered, edges.tolist())
    json.dumps(found, allow_nan=False)
    assert total(found) == pytest.approx(1.0, abs=0.5e-4 * len(found["shares"]))


@pytest.mark.parametrize(("center", "width"), [(1e6, 1e-9), (1e6, 1e-8), (-3e9, 1e-5), (2.0**60, 1e5), (0.0, 1e-322)])
def test_no_edge_is_a_value_where_values_are_too_close_for_round_numbers(rng, center, width):
    values = np.sort(center + width * rng.random(80))
    assert len(set(values.tolist())) > 5
    edges = bin_edges(values, width)
    assert not set(edges) & set(values.tolist())
    assert 1 < len(edges) < 30
    assert edges[0] < values[0]
    assert edges[-1] > values[-1]


def test_edges_of_close_values_are_on_a_grid_of_their_own():
    values = 2.0**60 + 4096.0 * np.sort(np.random.default_rng(1000).integers(0, 1000, 80))
    moved = values.copy()
    moved[[0, -1]] += 256.0
    assert bin_edges(values, 1e5) == bin_edges(moved, 1e5)
    assert len(bin_edges(values, 1e5)) > 10


def test_edges_are_round(rng):
    edges = bin_edges(np.sort(rng.normal(100.0, 15.0, 5000)), 15.0)
    assert 14 <= len(edges) <= 30
    assert set(np.diff(edges)) <= {2.5, 5.0}
    assert all(edge % 2.5 == 0.0 for edge in edges)


def test_whole_numbers_have_bins_of_their_own(rng):
    counts = rng.poisson(3.0, 2000).astype(float)
    edges = bin_edges(np.sort(counts), 1.5)
    assert set(np.diff(edges)) == {1.0}
    shares = numeric_summary(counts, edges)["shares"]
    assert shares[1] == pytest.approx((counts == 0).mean(), abs=1e-4)
    assert shares[2] == pytest.approx((counts == 1).mean(), abs=1e-4)


def test_mean_and_std_are_those_of_numpy(rng):
    values = rng.lognormal(0.0, 1.0, 300)
    values[::7] = np.nan
    found = numeric_summary(values, [0.0, 1.0])
    assert found["mean"] == pytest.approx(np.nanmean(values), rel=1e-5)
    assert found["std"] == pytest.approx(np.nanstd(values), rel=1e-5)
    assert found["missing"] == pytest.approx(np.isnan(values).mean(), abs=1e-4)
    nothing = numeric_summary(np.array([np.nan]), [0.0])
    assert nothing["mean"] is None
    assert nothing["missing"] == 1.0


def test_summaries_of_a_table_then_and_now(rng):
    rows = 1000
    first = pa.table(
        {
            "x": rng.normal(size=rows),
            "colour": rng.choice(["red", "blue"], rows, p=[0.7, 0.3]),
            "flag": rng.random(rows) < 0.25,
            "ts": [dt.datetime(2024, 3, 1) + dt.timedelta(hours=int(h)) for h in rng.permutation(rows)],
        }
    )
    encoder = TableEncoder.fit(first, datetime=["hour", "month"])
    then = encoder.transform(first, summaries=True).summaries
    assert list(then) == list(encoder.groups) == ["x", "colour", "flag", "ts hour", "ts month"]
    assert all(total(part) == pytest.approx(1.0, abs=2e-3) for part in then.values())
    assert then["colour"]["values"] == ["red", "blue"]
    assert then["flag"]["values"] == ["true", "false"]
    assert then["flag"]["shares"][0] == pytest.approx(0.25, abs=0.06)
    assert len(then["ts hour"]["edges"]) == 25
    np.testing.assert_allclose(then["ts hour"]["shares"][1:-1], 1.0 / 24.0, atol=2e-3)
    assert then["ts month"]["shares"][3] == pytest.approx(31 * 24 / rows, abs=1e-4)  # the hours of March
    later = pa.table(
        {
            "x": [None, 0.0, 1e9, -1e9],
            "colour": ["teal", None, "red", "red"],
            "flag": [None] * 4,
            "ts": pa.nulls(4, pa.timestamp("s")),
        }
    )
    now = encoder.transform(later, summaries=True).summaries
    assert now["x"]["edges"] == then["x"]["edges"]
    assert (now["x"]["shares"][0], now["x"]["shares"][-1], now["x"]["missing"]) == (0.25, 0.25, 0.25)
    assert now["colour"] == {
        "kind": "categorical",
        "values": ["red", "blue"],
        "shares": [0.5, 0.0],
        "other": 0.25,
        "missing": 0.25,
    }
    assert now["flag"]["missing"] == 1.0
    assert now["ts hour"]["missing"] == 1.0
    assert encoder.transform(first.slice(0, 0), summaries=True).summaries["x"]["mean"] is None


def test_no_single_value_of_the_original_is_kept(rng):
    x = rng.lognormal(0.0, 2.0, 500)
    names = ["often"] * 480 + [f"person {i}" for i in range(20)]
    table = pa.table({"x": x, "name": names})
    encoder = TableEncoder.fit(table)
    kept = json.dumps([encoder.to_dict(), encoder.transform(table, summaries=True).summaries, encoder.describe()])
    assert "person" not in kept
    numbers = {float(part.strip("[]{}\"',:")) for part in kept.split() if _is_number(part.strip("[]{}\"',:"))}
    assert not numbers & set(x.tolist())


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_column_is_parsed_once_for_its_encoding_and_its_summary(monkeypatch):
    table = pa.table({"x": ["1.5", "2.5", "0.5", "7"] * 10, "y": ["a", "b"] * 20})
    encoder = TableEncoder.fit(Rows(table, untyped=True))
    seen = []
    for kind in (NumericColumn, CategoricalColumn):
        parse = kind.parse
        monkeypatch.setattr(kind, "parse", lambda self, *a, parse=parse: seen.append(self.name) or parse(self, *a))
    encoded = encoder.transform(table, summaries=True)
    assert seen == ["x", "y"]
    assert list(encoded.summaries) == ["x", "y"]
    assert encoder.transform(table).summaries == {}


@given(st.lists(FINITE | st.just(np.nan) | st.sampled_from([-1.0, 0.0, 0.5]), max_size=60))
def test_counts_equal_those_of_a_search(values):
    values, edges = np.array(values), [-1.0, -0.0, 0.5, 7.0]
    places = np.searchsorted(edges, values[~np.isnan(values)], side="right")
    expected = np.bincount(places, minlength=len(edges) + 1) / max(1, len(values))
    assert numeric_summary(values, edges)["shares"] == [round(float(share), 4) for share in expected]


@pytest.mark.parametrize("held", [1, 2, 3, 9])
def test_values_of_few_rows_are_not_kept(held, rng):
    """Exact quantiles, means or constants of a handful of values would be these values."""
    few = rng.lognormal(0.0, 1.0, held)
    few = np.where(rng.random(held) < 0.5, -few, few)
    cells = {"few": [*few, *[None] * (500 - held)], "one": [*[few[0]] * held, *[None] * (500 - held)]}
    table = pa.table(
        {**{name: pa.array(values, pa.float64()) for name, values in cells.items()}, "x": rng.normal(size=500)}
    )
    encoder = TableEncoder.fit(table, numeric=["few", "one"])
    encoded = encoder.transform(table, summaries=True)
    ledger = open_ledger(encoder, encoded.values, 500.0)
    for name in ("few", "one"):
        assert (encoded.summaries[name]["mean"], encoded.summaries[name]["std"]) == (None, None)
    assert not any(cells.atoms or cells.names for cells in ledger.columns)
    kept = json.dumps([encoder.to_dict(), encoded.summaries, ledger.to_dict()])
    digits = {re.sub("[^0-9]", "", number).lstrip("0")[:4] for number in re.findall("[0-9]+[.][0-9]{3,}", kept)}
    assert not digits & {f"{abs(value):.8e}".replace(".", "")[:4] for value in few}


def test_the_edge_beside_a_heap_gives_no_row_away(rng):
    values = np.where(rng.random(1000) < 0.3, 0.0, rng.gamma(2.0, 1.0, 1000))
    table = pa.table({"x": values})
    encoder = TableEncoder.fit(table)
    encoded = encoder.transform(table).values
    (cells,) = open_ledger(encoder, encoded, 1000.0).columns
    heap = float(encoded[values == 0.0][0, 0])
    assert cells.atoms == (0.0,)
    assert cells.edges[0] < heap < cells.edges[1]
    gaps = heap - np.array(cells.edges)
    for factor in (1.0, 2.0, 4.0):  # exactly half as far as the nearest row would tell it
        assert np.abs(encoded[:, :1] - (heap + factor * gaps)).min() > 1e-12

"""Counts of an original: cells that hold no row, and the counts of rows in them."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from driftline.fitting import heaped_edges
from driftline.inference import CellKind
from driftline.tables import Ledger, TableEncoder, TableError, count, fits, open_ledger

SHARES = np.arange(1, 10) / 10


def table(rng, n=1000):
    return pa.table(
        {
            "x": rng.normal(size=n),
            "spiked": np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2.0, 3.0, n)),
            "count": rng.poisson(3.0, n),
            "kind": rng.choice(["a", "b", "c", "rare"], n, p=[0.5, 0.3, 0.197, 0.003]),
            "flag": rng.random(n) < 0.3,
            "gaps": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
            "still": np.ones(n),
        }
    )


@pytest.fixture
def opened(rng):
    encoder = TableEncoder.fit(table(rng))
    values = encoder.transform(table(rng)).values
    return encoder, values, open_ledger(encoder, values, 1000.0)


def test_counts_are_those_of_the_rows(opened):
    encoder, values, ledger = opened
    found = count(ledger, encoder, values)
    np.testing.assert_array_equal(found.columns, ledger.tally.columns)
    np.testing.assert_array_equal(found.pairs, ledger.tally.pairs)
    assert (found.columns.sum(1) == 1000).all()
    assert (found.pairs.sum((1, 2)) == 1000).all()
    assert [column.column for column in ledger.columns] == list(encoder.groups)


def test_heaps_and_missing_values_have_cells_of_their_own(opened):
    *_, ledger = opened
    cells = {column.column: column for column in ledger.columns}
    spiked = cells["spiked"]
    assert spiked.atoms == (0.0,)
    assert spiked.counts[spiked.heaps[0]] == pytest.approx(500, abs=80)
    assert len(spiked.counts) > 8  # the rest has bins as if there were no heap
    assert cells["gaps"].counts[-1] == pytest.approx(100, abs=40)
    assert cells["gaps"].kinds[-1] == CellKind.ALONE
    assert cells["still"].counts == (1000, 0, 0)
    assert cells["kind"].names == ("a", "b", "c")
    assert len(cells["kind"].counts) == 5  # three values, others, missing


def test_no_edge_is_a_value_and_every_bin_has_rows(opened, rng):
    encoder, values, ledger = opened
    for (_, coded), column in zip(encoder.coded(values), ledger.columns, strict=True):
        assert not set(column.edges) & set(coded.values[~coded.missing].tolist())
        *rest, _ = column.counts  # cells at the ends are for values that the original has not
        assert column.cells or all(rows >= 20 or (rows == 0 and k in (0, len(rest) - 1)) for k, rows in enumerate(rest))
    for x in (
        rng.normal(size=500),
        rng.integers(0, 40, 500).astype(float),
        np.full(100, 3.0),
        rng.gamma(0.1, 1.0, 800),
    ):
        edges, heaps = heaped_edges(x, SHARES, 20, 0.03)
        cells = np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
        assert not np.isin(edges, x).any()
        assert cells.min() >= 20
        assert len(heaps) == len(edges) + 1


def test_groups_of_pairs_are_few_and_not_small(opened):
    *_, ledger = opened
    for column in ledger.columns:
        rows = np.bincount(column.groups, column.counts)
        assert len(rows) <= 4
        assert len(rows) == 1 or rows.min() >= 50
    assert not any(ledger.columns[k].column == "still" for pair in ledger.pairs for k in pair)


def test_values_that_are_frequent_by_luck_get_no_cell(rng):
    """Thirty values of about 20 rows: those above the cut would fall back, and all others rise."""
    alike = rng.choice([f"v{k}" for k in range(100)], 2000)
    encoder = TableEncoder.fit(pa.table({"alike": alike, "x": rng.normal(size=2000)}))
    before = encoder.transform(pa.table({"alike": alike, "x": rng.normal(size=2000)})).values
    ledger = open_ledger(encoder, before, 2000.0)
    gains = []
    for _ in range(20):
        now = pa.table({"alike": rng.choice([f"v{k}" for k in range(100)], 2000), "x": rng.normal(size=2000)})
        tally = count(ledger, encoder, encoder.transform(now).values)
        others = len(ledger.columns[0].names)
        gains.append(tally.columns[0, others:].sum() - ledger.tally.columns[0, others:].sum())
    assert abs(np.mean(gains)) < 0.5 * np.sqrt(2 * 2000 * 0.25)


def test_a_ledger_fits_its_own_encoder_only(opened):
    encoder, _, ledger = opened
    assert fits(ledger, encoder)
    first, *others = ledger.columns
    assert not fits(replace(ledger, columns=tuple(others)), encoder)
    kind = next(k for k, column in enumerate(ledger.columns) if column.column == "kind")
    short = replace(ledger.columns[kind], cells=ledger.columns[kind].cells[:-1])
    assert not fits(replace(ledger, columns=(first, *others[: kind - 1], short, *others[kind:])), encoder)


def test_a_ledger_is_json_and_damage_is_noticed(opened):
    *_, ledger = opened
    data = json.loads(json.dumps(ledger.to_dict()))
    assert Ledger.from_dict(data) == ledger
    for part, value in (("worth", -1.0), ("pairs", [[1, 0]]), ("tables", [1]), ("columns", None), ("more", 1)):
        with pytest.raises(TableError, match="damaged"):
            Ledger.from_dict({**data, part: value})
    for part, value in (
        ("groups", [9]),
        ("counts", [-1, 2]),
        ("edges", [float("nan")]),
        ("cells", ["a"]),
        ("heaps", [99]),
    ):
        first = {**data["columns"][0], part: value}
        with pytest.raises(TableError, match="damaged"):
            Ledger.from_dict({**data, "columns": [first, *data["columns"][1:]]})


def test_many_columns_have_leading_pairs_only(rng):
    x = rng.normal(size=(300, 70))
    x[:, 69] = x[:, 68] + 0.1 * rng.normal(size=300)
    encoder = TableEncoder.fit(pa.table({f"c{j}": x[:, j] for j in range(70)}))
    ledger = open_ledger(encoder, encoder.transform(pa.table({f"c{j}": x[:, j] for j in range(70)})).values, 300.0)
    assert len(ledger.pairs) == 60 * 59 // 2
    assert (68, 69) in ledger.pairs

"""Tables as they are downloaded: what is left out is listed in one note, and choices mean what they say."""

import datetime as dt
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.monitor import Settings, compare
from driftline.sources import SourceError, read_whole
from driftline.tables import Rows, TableEncoder, TableError

N = 400


def messy(rng):
    return pa.table(
        {
            "order": [f"O-{i}" for i in range(N)],
            "seq": range(N),
            "when": [dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(h)) for h in rng.integers(0, 999, N)],
            "tags": [["a"]] * N,
            "empty": pa.nulls(N),
            "amount": rng.normal(size=N),
            "shop": rng.choice(["east", "west"], N),
        }
    )


def test_one_note_lists_all_that_is_left_out(rng):
    encoder = TableEncoder.fit(messy(rng))
    assert [column.name for column in encoder.columns] == ["amount", "shop"]
    (note,) = encoder.notes
    for name in ("order", "seq", "when", "tags", "empty"):
        assert f"'{name}' (" in note
    for way in ("categorical", "datetime", "numeric", "nested", "drop"):
        assert way in note
    assert TableEncoder.fit(messy(rng), drop=["order", "seq", "when", "tags", "empty"]).notes == ()
    assert TableEncoder.fit(messy(rng), columns=["amount"]).notes == ()
    with pytest.raises(TableError, match=r"no column can be watched: 'order': .*'tags'.*categorical.*datetime"):
        TableEncoder.fit(messy(rng).select(["order", "seq", "when", "tags"]))


def test_what_is_dropped_may_be_missing_new_or_retyped():
    rng = np.random.default_rng(7)
    plain = pa.table({"x": rng.normal(size=N)})
    labelled, other = plain.append_column("label", pa.array([1] * N)), plain.append_column("label", pa.array(["a"] * N))
    for frames in ([plain, labelled, other], [labelled, plain, other], [other, labelled, plain]):
        for choice in ({"drop": ["label"]}, {"columns": ["x"]}):
            with Monitor(window=N, **choice) as monitor:
                # the second time, windows hold rows of two frames
                assert [r.status for r in monitor.watch(frames)] == ["original", "measured", "measured"]
                assert len(list(monitor.watch([labelled.slice(0, N // 2), other.slice(0, N // 2)]))) == 1
    with pytest.raises(TableError, match="column 'label' is new"):
        list(Monitor(window=N).watch([plain, labelled]))


def test_a_name_to_drop_that_nothing_has_is_noted(rng):
    table = pa.table({"x": rng.normal(size=N), "label": rng.integers(0, 2, N)})
    encoder = TableEncoder.fit(table, drop=["lable"])
    assert encoder.notes == ("drop: no column 'lable', did you mean 'label'?; one that comes later will be left out",)
    assert [column.name for column in encoder.columns] == ["x", "label"]
    assert encoder.transform(table.append_column("lable", table["x"])).notes == ()


def test_files_may_differ_in_what_is_dropped(tmp_path):
    rng = np.random.default_rng(7)
    for name, label in (("a", {"label": 1}), ("b", {}), ("c", {"label": "x", "more": 2})):
        pd.DataFrame({"x": rng.normal(size=N), **label}).to_parquet(tmp_path / f"{name}.parquet")
    settings = Settings(window=N, drop=["label", "more"])
    rows = read_whole(str(tmp_path), ignored=settings.window_rule().ignores)
    assert rows.table.num_rows == 3 * N
    assert compare(rows, rows, drop=["label", "more"]).notes == ()
    with pytest.raises(SourceError, match="label"):
        read_whole(str(tmp_path))


def test_integers_beyond_exact_doubles_are_noted():
    wide = pa.table({"id": [2**60 + k * 7 % 50 for k in range(50)], "x": [float(2**60), 1.0] * 25})
    (note,) = TableEncoder.fit(wide).transform(wide).notes
    assert note.startswith("id: 50 integers beyond 2^53")
    text = Rows(pa.table({"id": [str(v) for v in wide["id"].to_pylist()], "x": ["1e20", "0.5"] * 25}), untyped=True)
    (note,) = TableEncoder.fit(text, numeric=["id"]).transform(text).notes
    assert note.startswith("id: 50 integers beyond 2^53")


def test_missing_values_that_double_are_noted(rng):
    def gappy(share, rows=1000):
        return pa.table(
            {
                "x": pa.array(rng.normal(size=rows), mask=rng.random(rows) < share),
                "c": pa.array(rng.choice(["a", "b"], rows), mask=rng.random(rows) < share),
                "b": pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < share),
            }
        )

    encoder = TableEncoder.fit(gappy(0.1))
    assert encoder.transform(gappy(0.12)).notes == ()
    notes = encoder.transform(gappy(0.24)).notes
    assert [note.split(":")[0] for note in notes] == ["x", "c", "b"]
    assert all("of the values are missing, at first" in note for note in notes)


def test_null_words_can_be_set(tmp_path):
    rng = np.random.default_rng(7)
    path = tmp_path / "a.csv"
    country = rng.choice(["NA", "DE", "?"], 2 * N)
    pd.DataFrame({"x": rng.normal(size=2 * N), "country": country}).to_csv(path, index=False)

    def encoder(**settings):
        with Monitor(window=N, **settings) as monitor:
            list(monitor.watch(path))
            return monitor.encoder

    assert set(encoder().columns[1].values) == {"DE", "?"}
    assert set(encoder(null_values=["?"]).columns[1].values) == {"DE", "NA"}
    assert set(encoder(null_values=["-"]).columns[1].values) == {"DE", "NA", "?"}


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame([[1, 2]] * N, columns=["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame([[1, 2]] * N, columns=[1, "1"]), "more than one column '1'"),
        (pd.DataFrame(index=range(N)), "has no columns"),
    ],
)
def test_frames_that_cannot_be_watched_say_why(frame, said):
    with pytest.raises(SourceError, match=said):
        list(Monitor(window=N).watch(frame))


def test_columns_that_arrow_cannot_hold_are_left_out(rng):
    odd = pd.DataFrame({0: rng.normal(size=N)})
    odd["mixed"] = [1, "a"] * (N // 2)
    odd["objects"] = [object() for _ in range(N)]
    odd["complex"] = odd[0] + 1j
    odd["interval"] = pd.cut(odd[0], 4)
    odd["flag"] = [True, False, None, True] * (N // 4)
    odd["unused"] = pd.Categorical(["a", "b"] * (N // 2), categories=["a", "b", "c"])
    odd["took"] = pd.to_timedelta(rng.gamma(2.0, 30.0, N), unit="s")
    with Monitor(window=N) as monitor:
        (record,) = monitor.watch(odd)
    assert list(monitor.encoder.groups) == ["0", "flag", "unused", "took"]
    assert all(f"'{name}' (" in record.notes[0] for name in ("mixed", "objects", "complex", "interval"))
    with Monitor(window=N, drop=["mixed", "objects", "complex", "interval"]) as monitor:
        (record,) = monitor.watch(odd)
    assert record.notes == ()


def test_thousands_of_columns_are_encoded_in_seconds():
    """A list of names for each column would take half a minute."""
    rng = np.random.default_rng(7)
    wide = pa.table({f"c{j}": rng.normal(size=50) for j in range(3000)})
    began = time.process_time()
    encoder = TableEncoder.fit(wide, drop=[f"c{j}" for j in range(0, 3000, 2)])
    for _ in range(2):
        assert encoder.transform(wide).values.shape == (50, 3000)
    assert time.process_time() - began < 10.0  # about one second


def test_a_column_that_was_empty_and_is_filled_is_certain_drift(rng):
    x = rng.normal(size=N)
    encoder = TableEncoder.fit(pa.table({"e": pa.nulls(N, pa.float64()), "x": x}))
    encoder = TableEncoder.from_dict(encoder.to_dict())
    (evidence,) = encoder.transform(pa.table({"e": x, "x": x})).evidence
    assert (evidence.column, evidence.event) == ("e", "100 % filled, 0 % at first")
    one = pa.array([1.0] + [None] * (N - 1))
    found = encoder.transform(pa.table({"e": one, "x": x}))
    assert found.evidence == ()
    assert "1 row has one now" in found.notes[0]


def test_the_index_that_pandas_writes_is_left_out(rng):
    name = "__index_level_0__"
    table = pa.table({"x": rng.normal(size=N), name: rng.permutation(N)})
    assert TableEncoder.fit(table).skipped == {name: "the index of a pandas frame"}
    assert name in TableEncoder.fit(table, numeric=[name]).names


def test_a_column_left_out_that_goes_missing_is_certain_drift(rng):
    x, ids = rng.normal(size=N), [f"id {k}" for k in range(N)]
    encoder = TableEncoder.fit(pa.table({"id": ids, "x": x}))
    encoder = TableEncoder.from_dict(encoder.to_dict())
    (evidence,) = encoder.transform(pa.table({"id": pa.nulls(N, pa.string()), "x": x})).evidence
    assert (evidence.column, evidence.event) == ("id", "0 % filled, 100 % at first")
    later = pa.table({"id": [f"id {k + N}" for k in range(N)], "x": x})
    assert encoder.transform(later).evidence == ()
    assert TableEncoder.fit(later, drop=["id"]).transform(pa.table({"x": x})).evidence == ()


@pytest.mark.parametrize("write", ["${:.2f}", "{:,.0f}", "{:.2f} €", "{:.1f} %"])
def test_numbers_in_disguise_are_recognised(rng, write):
    values = [write.format(value) for value in 1000.0 + 1e5 * rng.random(N)]
    why = TableEncoder.fit(pa.table({"price": values, "x": rng.normal(size=N)})).skipped["price"]
    assert "numbers with signs or separators" in why


def test_words_are_not_taken_for_numbers(rng):
    words = [f"order {k}" for k in range(N)]
    why = TableEncoder.fit(pa.table({"text": words, "x": rng.normal(size=N)})).skipped["text"]
    assert why.startswith("text or identifiers")
    assert "numbers" not in why


def test_a_key_of_json_lines_that_was_null_in_every_row_was_an_empty_column(rng):
    """The source leaves such keys out, since an absent key means null: strict or lenient, the change is certain."""
    x = rng.normal(size=1000)
    note = pa.array([f"some words {i}" if i % 6 else None for i in range(1000)])
    for schema in ("strict", "lenient"):
        encoder = TableEncoder.fit(Rows(pa.table({"x": x}), sparse=True), schema=schema)
        encoded = encoder.transform(Rows(pa.table({"x": x, "note": note}), sparse=True))
        assert [(e.column, e.event) for e in encoded.evidence] == [("note", "83 % filled, 0 % at first")]
        assert encoded.notes == ("note: had no value in the first window and is not watched; 833 rows have one now",)
        once = encoder.transform(Rows(pa.table({"x": x, "note": pa.array(["a"] + [None] * 999)}), sparse=True))
        assert (once.evidence, len(once.notes)) == ((), 1)
    many = encoder.transform(Rows(pa.table({"x": x, **{f"key {i}": note for i in range(30)}}), sparse=True))
    assert len(many.notes) == 6
    assert many.notes[-1] == "25 further columns had no value in the first window and are not watched"
    assert len(many.evidence) == 30


def test_a_key_of_json_lines_that_is_not_watched_and_vanishes_is_certain_drift(rng):
    x, note = rng.normal(size=1000), [f"some words {i}" for i in range(1000)]
    encoder = TableEncoder.fit(Rows(pa.table({"x": x, "note": note}), sparse=True))
    (evidence,) = encoder.transform(Rows(pa.table({"x": x}), sparse=True)).evidence
    assert (evidence.column, evidence.event) == ("note", "0 % filled, 100 % at first")


def test_a_named_choice_of_columns_does_not_look_at_new_keys(rng):
    x = rng.normal(size=100)
    encoder = TableEncoder.fit(Rows(pa.table({"x": x}), sparse=True), columns=["x"])
    assert encoder.transform(Rows(pa.table({"x": x, "new": x}), sparse=True)).evidence == ()

import re

from driftline.report._histograms import changed, histogram

PAIR = {"kind": "categorical", "values": ["a", "b"], "shares": [0.6, 0.3], "other": 0.1, "missing": 0.0}


def test_what_cannot_be_compared_is_not_drawn(runs):
    numeric = runs.histogram(0.0, 1.0)
    assert histogram("x", {}, {}, "h") == ""
    assert histogram("x", numeric, PAIR, "h") == ""
    assert histogram("x", numeric, {**numeric, "edges": [0.0, 1.0], "shares": [0.2, 0.3, 0.5]}, "h") == ""
    assert histogram("x", {"kind": "numeric", "edges": [], "shares": [1.0]}, {"kind": "numeric"}, "h") == ""


def test_bars_are_as_high_as_shares(runs):
    drawn = histogram("x", runs.histogram(0.0, 1.0), runs.histogram(1.0, 0.5), "h")
    paths = [re.search(rf'd="([^"]*)" class="outline filled {kind}"', drawn)[1] for kind in ("then", "now")]
    # each bin is drawn from its left to its right, at a height below the axis at 136
    then, now = ([136.0 - float(y) for y in re.findall(r"V([\d.]+)H", path)] for path in paths)
    assert len(then) == len(now) == 22
    # both add up to one, within a rounding of 0.05 pixels each
    assert abs(sum(then) - sum(now)) < 22 * 0.2
    assert now.index(max(now)) > then.index(max(then))
    bins = [list(map(float, each.split(","))) for each in re.search(r'data-bins="([^"]*)"', drawn)[1].split(";")]
    assert [b[3] for b in bins] == runs.histogram(1.0, 0.5)["shares"]


def test_whole_numbers_are_named_by_themselves():
    bins = {"edges": [-0.5, 0.5, 1.5, 2.5], "shares": [0.0, 0.5, 0.3, 0.2, 0.0]}
    then = {"kind": "numeric", **bins, "missing": 0.0, "mean": 0.7, "std": 0.8}
    drawn = histogram("x", then, then, "h")
    assert re.findall(r'text-anchor="middle">([^<]*)<', drawn) == ["0", "1", "2"]


def test_one_edge_is_enough():
    then = {"kind": "numeric", "edges": [3.0], "shares": [0.4, 0.6], "missing": None, "mean": None, "std": None}
    assert ">3<" in histogram("x", then, then, "h")
    assert changed(then, then) == ""


def test_missing_values_are_drawn_and_described(runs):
    then, now = runs.histogram(0.0, 1.0), runs.histogram(0.0, 1.0, 0.2)
    assert ">missing<" in histogram("x", then, now, "h")
    assert ">missing<" not in histogram("x", then, then, "h")
    assert changed(then, now).endswith("missing: 0\xa0% then, 20\xa0% now.")


def test_categories_say_which_changed_most():
    now = {**PAIR, "shares": [0.55, 0.1], "other": 0.05, "missing": 0.3}
    assert changed(PAIR, now) == "“(missing)”: 0\xa0% then, 30\xa0% now."
    many = {
        "kind": "categorical",
        "values": [f"v{k}" for k in range(20)],
        "shares": [0.05] * 20,
        "other": 0.0,
        "missing": 0.0,
    }
    drawn = histogram("x", many, {**many, "shares": [0.0, *[0.05] * 18, 0.1]}, "h")
    assert "and 12 more that changed less" in drawn
    assert ">v0<" in drawn
    assert ">v19<" in drawn


def test_a_constant_column_that_moved(runs):
    then = {**runs.histogram(0.0, 1.0), "std": 0.0}
    assert changed(then, {**then, "mean": 2.0}) == "mean 0 then (constant), 2 now."

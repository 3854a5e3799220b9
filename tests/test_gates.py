"""Gates: a worker measures what it says, and the table compares like with like."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from benchmarks import weighted
from benchmarks.gates.cases import GATES, Alarms, Follow, case_of
from benchmarks.gates.measures import lines
from benchmarks.gates.sides import Kept, Side, spec
from benchmarks.gates.worker import row_of
from benchmarks.streams import MeansStream
from benchmarks.weighted import Population


def look(value, low, high, truth, *doubts, mae=0.1):
    return {"value": value, "low": low, "high": high, "truth": truth, "floor": 0.0, "doubts": doubts, "mae": mae}


def run(looks, digest="same", seed=0, **more):
    return {"seed": seed, "digest": digest, "looks": looks, "said": {}, "cpu": 1.0, "bytes": 100, **more}


def measured(gate, old, new):
    return {(line.case, line.measure): line for line in lines(gate, old, new)}


def test_a_worker_follows_a_stream(tmp_path):
    case = Follow(MeansStream(means=(0.0, 0.5, 1.0)), 1_000, (1, 2), "quadratic", fresh=500)
    row = row_of(case, 7, tmp_path)
    end = row["looks"]["2"]
    assert list(row["looks"]) == ["1", "2"]
    assert end["truth"] == 1.0
    assert abs(end["value"] - 1.0) < 5.0 * end["std_error"]
    assert 0.0 < end["mae"] < 0.5
    assert row["bytes"] > 0 < row["cpu"]
    again = row_of(case, 7, tmp_path)
    assert (again["digest"], again["looks"]) == (row["digest"], row["looks"])
    assert row_of(case, 8, tmp_path)["digest"] != row["digest"]
    json.dumps(row, allow_nan=False)


def test_an_error_of_the_engine_is_a_row(tmp_path):
    row = row_of(Follow(MeansStream(), 1_000, (1,), "no such model"), 7, tmp_path)
    assert "no such model" in row["error"]
    found = measured("streams", {}, {"case": [row | {"seed": 0}]})
    assert found["case", "runs without a result"].met is False


@pytest.mark.full
def test_a_process_works_for_the_tree_and_says_whose_rows_they_are(tmp_path):
    jobs = [("streams", "there-and-back", 3), ("floors", "column", 4)]
    side, kept = Side.of_tree(), Kept(tmp_path, "tree:abc")
    for row in side.work(jobs, tmp_path):
        kept.add(row)
    again = Kept(tmp_path, "tree:abc")
    assert [again.get(job) for job in jobs] == [kept.rows[job] for job in jobs]
    assert {row["side"] for row in again.rows.values()} == {side.key}
    assert again.get(("streams", "there-and-back", 5)) is None
    wrong = Side(side.key, tmp_path)  # a folder that driftline does not come from
    with pytest.raises(RuntimeError, match="exit code"):
        list(wrong.work(jobs, tmp_path))


def test_a_row_of_the_same_name_that_ran_something_else_does_not_count(tmp_path):
    kept, job = Kept(tmp_path, "key"), ("runs", "normal", 1)
    kept.add({"gate": "runs", "case": "normal", "seed": 1, "spec": "other"})
    assert kept.get(job) is None
    kept.add({"gate": "runs", "case": "normal", "seed": 1, "spec": spec("runs", "normal")})
    assert Kept(tmp_path, "key").get(job) is not None
    with kept.path.open("a") as file:
        file.write('{"gate": "ru')
    with pytest.raises(SystemExit, match="not complete"):
        Kept(tmp_path, "key")


def test_names_of_cases_say_what_they_run():
    for gate in GATES.values():
        quick, full = (gate.cases(scale) for scale in ("quick", "full"))
        assert all(quick[name] == full[name] for name in quick.keys() & full.keys())
    assert case_of("runs", "ar-98") == Alarms("ar-98")
    assert case_of("streams", "curved-pair, sums").keep == "sums"


def test_errors_are_compared_and_judged():
    old = {"gaussian": [run({"5": look(1.0, 0.9, 1.1, 1.0, mae=0.10)})]}
    new = {"gaussian": [run({"5": look(1.2, 1.1, 1.3, 1.0, mae=0.13)})]}
    found = measured("streams", old, new)
    worse = found["gaussian", "log-ratio MAE, t=5"]
    assert worse.ratio == pytest.approx(1.3)
    assert worse.met is False
    assert measured("streams", old, old)["all", "log-ratio MAE, mean of new / old"].met is True
    held = found["gaussian", "undoubted intervals that hold"]
    assert (held.old, held.new) == (1.0, 0.0)
    assert math.isnan(found["gaussian", "CPU s a step"].ratio)  # they did not run in turn


def test_a_doubt_or_an_open_end_takes_an_interval_out_of_those_that_must_hold():
    looks = {"1": look(0.5, 0.4, 0.6, 1.0, "weak_step"), "2": look(0.5, 0.4, None, 1.0), "3": look(1.0, 0.9, 1.1, 1.0)}
    found = measured("streams", {"ring": [run(looks)]}, {})
    assert found["ring", "undoubted"].old == pytest.approx(1 / 3)
    assert found["ring", "undoubted intervals that hold"].old == 1.0
    assert found["ring", "held or doubted"].met is True  # the old side, while there is no new one


def test_rows_of_other_data_are_refused():
    old, new = ({"latent": [run({"5": look(1.0, 0.9, 1.1, 1.0)}, digest)]} for digest in ("one", "other"))
    with pytest.raises(SystemExit, match="different rows"):
        lines("streams", old, new)


def test_costs_of_one_round_are_compared():
    old, new = ({"step, low-rank-40": [run({}, seed="now/0", cpu=cpu)]} for cpu in (4.0, 1.0))
    line = measured("cost", old, new)["step, low-rank-40", "CPU s a step"]
    assert (line.ratio, line.met) == (0.25, False)


def test_real_windows_are_pooled_over_tables():
    def slow(value, truth=0.2):
        return run({"1": look(value, value - 0.05, value + 0.05, truth)}, static=look(0.2, 0.1, 0.3, truth))

    rows = {
        "census, smooth, slow, 3000": [slow(0.19)],
        "flights, smooth, slow, 3000": [slow(0.1)],
        "flights, nothing, slow, 3000": [slow(0.004, 0.0)],
    }
    found = measured("real", rows, {})
    assert found["smooth, slow, 3000", "value / static value"].old == pytest.approx(0.725)
    assert found["smooth, slow, 3000", "value / static value"].met is False
    assert found["all, rows", "undoubted intervals that hold"].old == pytest.approx(2 / 3)
    assert found["all, rows", "value where nothing moves"].met is True


def test_weights_have_the_divergence_that_is_said(rng):
    """Of two groups, by hand: 30 % of the rows become a share s, and KL is that of two coins."""
    lean = (np.arange(100_000) < 30_000).astype(float)
    population = Population(pd.DataFrame({"x": lean}), lean)
    strength = population.strength(0.2)
    share = 0.3 * math.exp(strength) / (0.7 + 0.3 * math.exp(strength))
    coins = share * math.log(share / 0.3) + (1.0 - share) * math.log((1.0 - share) / 0.7)
    assert population.divergence(strength) == pytest.approx(0.2)
    assert coins == pytest.approx(0.2)
    drawn = population.draw(3_000, strength, rng)
    assert len(set(drawn)) == 3_000
    assert lean[drawn].mean() == pytest.approx(share, abs=5.0 * math.sqrt(share * (1.0 - share) / 3_000))
    assert population.divergence(0.0) == 0.0


def test_windows_scatter_as_independent_rows_do(rng):
    """The spread of means of 300 windows: without replacement from 3 % it is 1.5 % less than that of free draws."""
    lean = rng.standard_normal(20_000)
    population = Population(pd.DataFrame({"x": lean}), lean)
    log_weights = 0.5 * lean
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    mean = weights @ lean
    spread = math.sqrt(weights @ (lean - mean) ** 2 / 600)
    means = np.array([lean[population.draw(600, 0.5, rng)].mean() for _ in range(300)])
    assert abs(means.mean() - mean) < 4.0 * spread / math.sqrt(300)
    assert 0.8 < means.std() / spread < 1.15  # four standard errors of a spread from 300, beside the share drawn


def test_a_row_that_would_be_drawn_twice_is_refused(rng):
    lean = np.array([5.0, *np.zeros(99)])
    with pytest.raises(ValueError, match="smaller strength or window"):
        Population(pd.DataFrame({"x": lean}), lean).draw(3, 1.0, rng)


def test_a_smoothed_table_keeps_its_values_margins_and_order(rng):
    x = np.round(rng.lognormal(0.0, 1.0, 2_000), 1)
    rows = pd.DataFrame({"x": x, "y": x + rng.standard_normal(2_000), "word": np.where(x > 1.0, "much", "little")})
    rows.loc[:99, "y"] = np.nan
    many = weighted._smoothed(rows, 5, rng)
    assert set(many.x) <= set(x)
    assert many.y.isna().mean() == 0.05
    assert (many.word == np.tile(rows.word, 5)).all()
    assert many.x.quantile([0.1, 0.5, 0.9]).to_numpy() == pytest.approx(rows.x.quantile([0.1, 0.5, 0.9]), rel=0.15)
    assert many.x.corr(many.y, "spearman") == pytest.approx(rows.x.corr(rows.y, "spearman"), abs=0.03)
    assert not many.duplicated(["y"]).iloc[2_000:].all()


def test_what_leans_is_a_function_of_the_row(rng):
    rows = pd.DataFrame({"a": rng.integers(0, 9, 500), "b": rng.normal(size=500), "c": rng.choice(list("xyz"), 500)})
    rows.loc[:49, "b"] = np.nan
    table = weighted.Public("none", lambda read: rows, ("a", "b"), "c", "b")
    assert table.kinds() == list(weighted.KINDS)
    for kind in weighted.KINDS:
        lean = weighted._lean(rows, table, kind)
        assert np.isfinite(lean).all()
        assert np.ptp(lean) <= 3.0
        assert (lean == weighted._lean(rows.copy(), table, kind)).all()
    assert weighted._lean(rows, table, "missing")[:50].all()

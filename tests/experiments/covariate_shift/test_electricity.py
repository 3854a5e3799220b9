"""The electricity table: whole weeks, splits, and weights that help where only covariates move."""

import numpy as np
import pandas as pd
import pytest

from experiments.covariate_shift import electricity


def silent(text):
    pass


def test_the_table_holds_a_number_of_splits_and_no_more(market):
    assert electricity.most_splits(4, 7) == 11  # the last of them begins in week 100 and ends in week 128
    table = market(40, np.random.default_rng(1000))
    assert electricity.most_splits(2, 3, total=40) == 4
    np.testing.assert_array_equal(electricity.windows(table, 3, 2, 3)[0].x["demand"], table["nswdemand"][10080:10752])
    with pytest.raises(ValueError, match="40 weeks hold 4 splits"):
        electricity.windows(table, 4, 2, 3)


def test_windows_are_whole_weeks_in_order_and_splits_differ(market):
    table = market(40, np.random.default_rng(1000))
    first, second = (electricity.windows(table, split, 2, 3) for split in (0, 1))
    assert [len(window.x) for window in first] == [672] * 3
    np.testing.assert_array_equal(first[0].x["demand"], table["nswdemand"][:672])
    np.testing.assert_array_equal(second[0].x["demand"], table["nswdemand"][3360:4032])
    assert first[0].x["weekend"].mean() == pytest.approx(2 / 7)
    with pytest.raises(ValueError, match="weeks"):
        electricity.windows(table, 0, 20, 3)


def test_weights_help_a_line_when_only_covariates_move(monkeypatch, market):
    monkeypatch.setattr(electricity, "MODELS", ("linear",))
    table = market(8, np.random.default_rng(1001))
    frame = pd.DataFrame([{"seed": 0, **row} for row in electricity.errors(table, 0, 2, 4, silent)])
    error = frame[frame.target == electricity.PRICE].set_index(["model", "method"])["error"]
    assert error["linear", "weighted"] < 0.7 * error["linear", "unweighted"]
    assert error["linear", "weighted"] < 0.7 * error["linear", "permuted"]
    assert error["boosting", "told apart"] == pytest.approx(error["boosting", "pooled"], rel=0.05)

import pandas as pd
import pytest
import sklearn.datasets

from experiments import data

COLUMNS = ["date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer", "class"]


@pytest.fixture
def table():
    rows = 4
    numbers = {name: [0.25 * k for k in range(rows)] for name in COLUMNS[:-1]}
    return pd.DataFrame({**numbers, "day": [1, 2, 3, 7], "class": ["UP", "DOWN", "UP", "UP"]})


def test_without_the_variable_it_says_what_to_set(monkeypatch):
    monkeypatch.delenv("DRIFTLINE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="DRIFTLINE_DATA is not set"):
        data.electricity()


def test_in_an_empty_folder_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIFTLINE_DATA", str(tmp_path))
    assert "electricity/electricity.zip" in data.electricity_missing()
    with pytest.raises(data.DataMissingError, match=r"electricity/electricity\.zip"):
        data.electricity()


def test_a_table_from_openml_is_read_back(monkeypatch, tmp_path, table):
    # OpenML gives categories and its own column order
    published = table[COLUMNS[::-1]].astype({"day": "category", "class": "category"})
    answer = type("Bunch", (), {"frame": published})
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda data_id, as_frame: answer if data_id == 151 else None)
    data.download_electricity(tmp_path)
    monkeypatch.setenv("DRIFTLINE_DATA", str(tmp_path))
    assert data.electricity_missing() == ""
    pd.testing.assert_frame_equal(data.electricity(), table.astype({"class": str}), check_dtype=False)


def test_a_wrong_table_is_refused(monkeypatch, tmp_path, table):
    path = tmp_path / "electricity" / "electricity.zip"
    path.parent.mkdir()
    monkeypatch.setenv("DRIFTLINE_DATA", str(tmp_path))
    table.drop(columns="transfer").to_csv(path, index=False)
    with pytest.raises(ValueError, match="transfer"):
        data.electricity()
    table.replace({"class": {"UP": "SIDEWAYS"}}).to_csv(path, index=False)
    with pytest.raises(ValueError, match="SIDEWAYS"):
        data.electricity()

import zipfile

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
    assert "python -m experiments.data FOLDER" in data.electricity_missing()


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
    assert "DRIFTLINE_DATA/electricity/electricity.zip lacks the columns ['transfer']" in data.electricity_missing()
    table.replace({"class": {"UP": "SIDEWAYS"}}).to_csv(path, index=False)
    with pytest.raises(ValueError, match="SIDEWAYS"):
        data.electricity()
    table.astype({"nswprice": str}).assign(nswprice="dear").to_csv(path, index=False)
    assert "other than numbers" in data.electricity_missing()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped", "two files"])
def test_a_zip_that_cannot_be_read_is_found_and_named_without_its_folder(monkeypatch, tmp_path, table, damage):
    path = tmp_path / "electricity" / "electricity.zip"
    path.parent.mkdir()
    monkeypatch.setenv("DRIFTLINE_DATA", str(tmp_path))
    pd.concat([table] * 500).to_csv(path, index=False)
    assert data.electricity_missing() == ""
    whole = path.read_bytes()
    middle = len(whole) // 3
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 40]) + whole[middle + 40 :]
    path.write_bytes({"empty": b"", "text": b"date,day", "cut": whole[:-40], "flipped": flipped}.get(damage, whole))
    if damage == "two files":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("other.csv", "date,day")
    reason = data.electricity_missing()
    assert "DRIFTLINE_DATA/electricity/electricity.zip cannot be read" in reason
    assert str(tmp_path) not in reason

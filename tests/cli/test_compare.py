"""``driftline compare``: two files, one Record, an exit code."""

import json

import jsonschema

import driftline
from driftline.cli import run
from driftline.monitor._records import RECORD_SCHEMA


def test_compare(copy, said):
    assert run(["compare", "first.csv", "last.csv", "--json", "--fail-on", "alarm"]) == 1
    found = json.loads(said()[0])
    jsonschema.validate(found, RECORD_SCHEMA)
    assert found["columns"][0]["column"] == "age"
    same = driftline.compare("first.csv", "last.csv", name="first.csv").to_dict()
    assert {**same, "seconds": 0.0} == {**found, "seconds": 0.0}
    truth = 0.5  # ages moved by one standard deviation
    assert (
        abs(found["divergences"]["reverse_kl"]["value"] - truth) < 4 * found["divergences"]["reverse_kl"]["std_error"]
    )
    assert run(["compare", "first.csv", "first.csv", "--fail-on", "warning"]) == 0
    out, _ = said()
    assert "normal: the 95 % interval" in out
    assert run(["compare", "first.csv", "last.csv", "--tolerance", "0.5", "--fail-on", "alarm"]) == 0

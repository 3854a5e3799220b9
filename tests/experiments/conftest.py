"""Shared by the tests of experiments: the form of a verdict, and runs of all units in small."""

import re

import pandas as pd
import pytest

from experiments.parts import part_path, read_part
from experiments.runner import run_unit


@pytest.fixture(scope="session")
def check_form():
    """One bold sentence, one small table, at most three sentences, the rest folded away; lines of 120 characters."""

    def check(text):
        shown, fold, folded = text.partition("<details><summary>Details</summary>")
        finding, table, *sentences = shown.strip().split("\n\n")
        assert re.fullmatch(r"\*\*[^*]+\.\*\*", finding), finding
        assert len(_sentences(finding.strip("*"))) == 1, finding
        lines = table.split("\n")
        assert len(lines) >= 3
        assert set(lines[1]) <= set("|- ")
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, table
        assert len(sentences) <= 1
        assert 1 <= len(_sentences(" ".join(sentences))) <= 3, sentences
        assert all(len(line) <= 120 for line in text.split("\n") if not line.startswith("|"))
        if fold:
            assert folded.startswith("\n\n")
            assert folded.endswith("\n\n</details>\n")
        assert not re.search(r"\bnan\b|\bNone\b", text), text
        return " ".join(text.split())

    return check


def _sentences(text):
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9λp])", text.strip()) if part]


@pytest.fixture(scope="module")
def run_in_small(request, tmp_path_factory):
    """Run the test module's SMALL_RUN, an experiment with its arguments and units; the folder and all rows."""
    experiment, args, units = request.module.SMALL_RUN
    folder = tmp_path_factory.mktemp(experiment.name)
    for unit in units:
        run_unit(experiment, args, unit, folder)
    parts = [read_part(part_path(folder, args, unit), unit) for unit in units]
    assert None not in parts
    return folder, pd.concat([part.rows for part in parts])


@pytest.fixture(scope="module")
def folder(run_in_small):
    return run_in_small[0]


@pytest.fixture(scope="module")
def frame(run_in_small):
    return run_in_small[1]

"""The page for researchers: what it adds is added to a copy of the experiments, and runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "build-on-it.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"(?s)```python\n# (.*?)\n(.*?)```", PAGE))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Copy the experiments, with the page's additions in them."""
    place = tmp_path_factory.mktemp("checkout")
    shutil.copytree(
        ROOT / "experiments", place / "experiments", ignore=shutil.ignore_patterns("results", "__pycache__")
    )
    for where, code in BLOCKS.items():
        file, _, name = where.partition(": ")
        if name:
            text = (place / file).read_text(encoding="utf-8")
            begun = re.sub(rf"(?m)^({name}\b.* = \{{\n)", lambda found, code=code: found[1] + code, text)
            assert begun != text, where
            code = begun
        (place / file).write_text(code, encoding="utf-8")
    catalogue = place / "experiments" / "catalogue.py"
    catalogue.write_text(re.sub(r"(    )variance,\n", r"\1columns,\n\1variance,\n", catalogue.read_text()))
    images = load_digits().images.astype(np.float32) / 16
    labels = load_digits().target.astype(np.int64)
    arrays = {"train": images[300:], "train_labels": labels[300:], "test": images[:300], "test_labels": labels[:300]}
    np.savez(place / "letters.npz", **arrays)
    return place


def run(place, *words):
    """Run the command in the copy; return what it prints."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environ = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "experiments", *words]
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_gan_a_data_set_an_estimator_and_a_measure(checkout):
    [typed] = re.findall(r"```sh\npython -m experiments (gans .*)\n```", PAGE)
    small = "--iterations 5 --generated 60 --rows 60 --vae-epochs 1 --classifier-epochs 1 --jobs 1"
    run(checkout, *f"{typed} {small}".split())
    rows = pd.read_csv(checkout / "runs" / "gans-letters" / "results.csv")
    assert set(rows.case) == {"wgan", "lsgan"}
    assert {"linear", "static", "metrics"} <= set(rows.estimator)
    read = rows[rows.estimator == "linear"]
    assert read.value.notna().all()
    means = rows[rows.measure == "means"]
    assert len(means) == 2 * 3  # models; classes after one task and after two
    assert (means.value > 0).all()


def test_the_page_counts_its_lines():
    [said] = re.findall(r"These entries of (\d+), (\d+), (\d+) and (\d+) lines", PAGE)
    entries = [code for where, code in BLOCKS.items() if ": " in where]
    assert [int(count) for count in said] == [len(code.splitlines()) for code in entries]


def test_a_new_experiment(checkout):
    assert re.search(r"(?m)^columns +ours +2 s", run(checkout))
    said = run(checkout, "columns", "--seeds", "1", "--dims", "2", "4", "--rows", "200", "--jobs", "1")
    assert "with the number of columns" in said
    assert (checkout / "runs" / "columns" / "figure.png").stat().st_size > 0
    assert len(pd.read_csv(checkout / "runs" / "columns" / "results.csv")) == 2

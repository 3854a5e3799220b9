"""The examples run and print what they should; code in the README runs as typed."""

import codeop
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import threading
import tomllib
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.cli._demo import write_orders
from driftline.synthetic import Shop

ROOT = Path(__file__).parents[1]
NUMBER = r"\d+\.\d+"


@pytest.mark.networks
def test_generators_are_judged(tmp_path, capsys):
    main = runpy.run_path(str(ROOT / "examples" / "judge_generator.py"))["main"]
    judges = main(["--tasks", "3", "--samples", "300", "--seed", "1000", "--out", str(tmp_path)])
    names = ["judge-matrix.png", "judge-measures.png", "judge-prd.png", "judge-samples.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert list(judges["kept"].average().index) == ["0", "1", "2"]
    # the same first task, judged by the same samples: what differs later is forgetting
    assert judges["kept"].matrix("js").at["0", "0"] == judges["50 replayed"].matrix("js").at["0", "0"]
    assert "forgotten since learned" in capsys.readouterr().out


def test_retraining_with_weights(capsys):
    """A line is fitted to a curve, far from where it has to hold: weights must help a lot, and judge about right."""
    main = runpy.run_path(str(ROOT / "examples" / "retrain_with_weights.py"))["main"]
    results = main(["--seeds", "2", "--weeks", "5", "--rows", "1500"])
    for result in results:
        assert result.weighted < 0.7 * result.unweighted
        assert result.weighted < 1.2 * result.on_first_week
        assert abs(result.judged / result.weighted - 1.0) < 0.3
        assert 0.0 < result.effective < 1.0
    assert "Weights made the error smaller in 2 of 2 runs" in capsys.readouterr().out


def in_threads(target, args, daemon):
    """Return a thread that stands for a process: the other end of its line is its own, as it would be there."""
    *others, line = args
    return threading.Thread(target=target, args=(*others, Connection(os.dup(line.fileno()))), daemon=daemon)


# four processes each load NumPy, SciPy and scikit-learn, which takes ten times as long as what they do
@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sites_in_processes_of_their_own(processes, monkeypatch, capsys):
    """The truth after week t is 0.5 (0.06 t)²; in the third week a clinic is missing, and that reads as drift."""
    script = str(ROOT / "examples" / "federated_sites.py")
    if processes:
        command = [sys.executable, script, "--weeks", "4"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    else:
        context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=in_threads)
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)
        runpy.run_path(script)["main"](["--weeks", "4"])
        said = capsys.readouterr().out
    weeks = re.split(r"(?m)^week ", said)[1:]
    assert len(weeks) == 4
    for week, text in enumerate(weeks, 1):
        value, error = map(float, re.search(r"rounds: (\S+) ± (\S+)", text).groups())
        assert ("missing" in text) == (week in (3, 4))
        if week != 3:
            assert abs(value - 0.5 * (0.06 * week) ** 2) < 4.0 * error
    assert "site 'west', 41% of the rows, is missing in this window (ConnectionError: offline)" in weeks[2]


def test_page_on_sites_runs_as_typed(capsys):
    [(code, _)] = blocks((ROOT / "docs" / "federated.md").read_text(encoding="utf-8"))
    exec(compile(code, "docs/federated.md", "exec"), {})
    value = float(capsys.readouterr().out.split()[0])
    assert abs(value - 0.135) < 0.05


def blocks(text):
    """Return blocks of Python code with the output that follows each, if any."""
    return re.findall(r"(?s)```python\n(.*?)```\n(?:```text\n(.*?)```)?", text)


def readme(kind):
    """Return the README's blocks of a language."""
    return re.findall(rf"(?s)```{kind}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"))


def check_said(said, shown):
    """Check that the words are those shown, and the numbers within 1 %: other processors round otherwise.

    Three dots stand for lines that are not shown.
    """
    wanted = shown.splitlines()
    lines = said.splitlines()[-len(wanted) + 1 :] if wanted[:1] == ["..."] else said.splitlines()
    wanted = wanted[wanted[:1] == ["..."] :]
    assert [re.sub(NUMBER, "#", line) for line in lines] == [re.sub(NUMBER, "#", line) for line in wanted]
    numbers = [[float(n) for line in text for n in re.findall(NUMBER, line)] for text in (lines, wanted)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.01, abs=1e-4)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.networks
def test_python_of_the_readme_runs_as_typed(capsys):
    """All blocks in one session print what stands below them; that on Spark is run in tests/spark."""
    names: dict[str, object] = {}
    for code, output in blocks((ROOT / "README.md").read_text(encoding="utf-8")):
        if "spark" not in code:
            exec(compile(code, "README.md", "exec"), names)
            check_said(capsys.readouterr().out, output)


@pytest.mark.full
def test_commands_of_the_readme_run_as_typed(tmp_path):
    """What make demo prints and leaves behind is what the README shows and works on; .ci/run calls make itself."""
    setup, watching = readme("sh")
    assert [line.split()[:2] for line in setup.splitlines()] == [["make", "demo"], ["source", ".venv/bin/activate"]]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    run = partial(subprocess.run, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    said = run(["driftline", "demo"]).stdout
    assert set(readme("text")[0].splitlines()) <= set(said.splitlines())
    run(["bash", "-e", "-c", watching])
    assert {"shop.driftline", "shop.html"} <= {path.name for path in tmp_path.iterdir()}


def test_extras_of_the_pages_are_those_of_the_project():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in ("README.md", "docs/install.md"):
        named = re.findall(r"pip install '\.\[([\w,]+)\]'", (ROOT / page).read_text(encoding="utf-8"))
        assert named
        assert {extra for group in named for extra in group.split(",")} <= set(known)


@pytest.mark.networks
def test_page_on_judging_runs_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8"))
    for code, _ in found:
        exec(compile(code, "docs/evaluation.md", "exec"), names)
    assert len(found) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"measures.png", "matrix.pdf", "judge.safetensors"}


def typed(code):
    """Return the error of a block typed line by line at Python's prompt, which needs an empty line after a loop."""
    lines = []
    for line in [*code.splitlines(), ""]:
        lines.append(line)
        try:
            if codeop.compile_command("\n".join(lines), symbol="single") is not None:
                lines = []
        except SyntaxError as error:
            return f"{error.msg}: {line}"
    return ""


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/monitor.md", "docs/trust.md"])
def test_blocks_can_be_typed_at_the_prompt(page):
    found = [typed(code) for code, _ in blocks((ROOT / page).read_text(encoding="utf-8"))]
    assert found == [""] * len(found)


@pytest.mark.full
def test_page_on_python_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """All blocks in order, in one session."""
    monkeypatch.chdir(tmp_path)
    write_orders(Shop(), Path("driftline-demo/orders"))
    found, names = blocks((ROOT / "docs" / "python.md").read_text(encoding="utf-8")), {}
    assert len(found) == 8
    for code, output in found:
        exec(compile(code, "docs/python.md", "exec"), names)
        check_said(capsys.readouterr().out, output)


def test_page_on_watching_runs_as_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [(code, output)] = blocks((ROOT / "docs" / "monitor.md").read_text(encoding="utf-8"))
    exec(compile(code, "docs/monitor.md", "exec"), {})
    said = capsys.readouterr().out
    assert re.sub(r"[0-9.]+", "#", said) == re.sub(r"[0-9.]+", "#", output)
    assert {"hours.driftline", "hours.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.networks
def test_readings_of_the_example_are_true(seed):
    """With the first Gaussian in place of the real images, divergences in its features have a closed form."""
    example = runpy.run_path(str(ROOT / "examples" / "judge_generator.py"))
    features, rng = example["low_frequencies"], np.random.default_rng(1000 + seed)
    basis = features(np.eye(64).reshape(64, 8, 8))

    def gaussian(model):
        pca, mixture = model._models["0"]
        to = pca.components_ @ basis
        return mixture.means_[0] @ to + pca.mean_ @ basis, to.T @ mixture.covariances_[0] @ to

    def kl(one, other):
        (m, S), (n, T) = one, other
        inverse = np.linalg.inv(T)
        logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
        return 0.5 * (np.trace(inverse @ S) + (n - m) @ inverse @ (n - m) - len(m) + logs)

    images, _ = example["split"]("0", rng)
    model = example["Replay"](50, 1000 + seed)
    model.learn("0", images)
    first, estimator = gaussian(model), ContinualDensityRatio(model="quadratic-full", random_state=0)
    estimator.fit(features(model.samples(2000)["0"]))
    for t in range(6):
        if t:
            model.learn(f"later {t}", images)
        estimator.partial_fit(features(model.samples(2000)["0"]))
        found, truth = estimator.divergence("reverse_kl"), kl(gaussian(model), first)
        assert abs(found.value - truth) < 4.0 * found.std_error, (t, truth, found)
    assert truth > 0.1  # it has forgotten

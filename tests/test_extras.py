"""Base without its extras: whatever needs one says how to install it, and the rest works."""

import json
import subprocess
import sys

import pytest

from driftline import tables
from driftline._extras import MissingExtraError, attach, is_installed, missing, needs

EXTRAS = {
    "networks": ("torch",),
    "figures": ("matplotlib",),
    "monitor": ("pyarrow", "rich", "typer"),  # and narwhals, which recent versions of scikit-learn bring too
    "serve": ("fastapi", "prometheus_client", "uvicorn"),
    "eval": ("torch", "matplotlib", "pandas", "torchmetrics"),
}
EVERYTHING = sorted({module for modules in EXTRAS.values() for module in modules})

WITHOUT = """
import json, pkgutil, sys
from importlib import import_module
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.split(".")[0] in sys.argv[1:] else find(name, *more)
import numpy as np
import driftline, driftline.cli

said = {}
def attempt(what, action):
    try:
        action()
    except ImportError as error:
        said[what] = f"{type(error).__name__}: {error}"

exec("from driftline import *; __version__")
modules = ["driftline", *(m.name for m in pkgutil.walk_packages(driftline.__path__, "driftline."))]
for module in (import_module(name) for name in modules if "._" not in name and name != "driftline.cli"):
    for name in vars(module).get("__dir__", lambda: [])():
        attempt(f"{module.__name__}.{name}", lambda: getattr(module, name))
rows = np.random.default_rng(0).normal(size=(60, 2))
ratio = driftline.DensityRatio
attempt("base", lambda: ratio().fit(rows[:30], rows[30:]).divergence())
attempt("mlp", lambda: ratio(model="mlp", training=driftline.Training(epochs=1)).fit(rows[:30], rows[30:]))
attempt("paper", lambda: driftline.ContinualDensityRatio.paper(epochs=1).fit(rows[:30]).partial_fit(rows[30:]))
attempt("tensors", lambda: ratio(objective=lambda p, q: q.exp().mean() - p.mean()).fit(rows[:30], rows[30:]))
said["command"] = driftline.cli.run(["--version"])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def without():
    """Function that returns what is said in a process without some modules, and its standard error."""
    known = {}

    def said(*modules):
        if modules not in known:
            done = subprocess.run([sys.executable, "-c", WITHOUT, *modules], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            known[modules] = json.loads(done.stdout.splitlines()[-1]), done.stderr
        return known[modules]

    return said


def test_base_works_alone(without):
    said, _ = without(*EVERYTHING)
    assert "base" not in said
    base = {name for name in said if name.startswith("driftline.") and name.count(".") == 1}
    assert base == {"driftline.Monitor", "driftline.compare"}
    untouched = ("driftline.alarms", "driftline.estimators", "driftline.inference", "driftline.recursion")
    assert not [name for name in said if name.startswith(untouched)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("driftline.Monitor", "driftline.Monitor needs pyarrow: pip install 'driftline[monitor]'"),
        ("driftline.tables.TableEncoder", "needs pyarrow: pip install 'driftline[monitor]'"),
        ("driftline.sources.open_source", "needs pyarrow: pip install 'driftline[monitor]'"),
        ("driftline.monitor.Monitor", "needs pyarrow: pip install 'driftline[monitor]'"),
        ("driftline.terminal.show", "needs rich: pip install 'driftline[monitor]'"),
        ("driftline.synthetic.Shop", "needs pyarrow: pip install 'driftline[monitor]'"),
        ("driftline.report.write_png", "needs matplotlib: pip install 'driftline[figures]'"),
        ("driftline.server.create_app", "create_app needs FastAPI: pip install 'driftline[serve]'"),
        ("driftline.report.plot", "needs matplotlib: pip install 'driftline[figures]'"),
        ("driftline.features.ContinualVAE", "needs PyTorch: pip install 'driftline[networks]'"),
        ("driftline.fitting.MLP", "driftline.fitting.MLP needs PyTorch: pip install 'driftline[networks]'"),
        ("driftline.fitting.bregman", "needs PyTorch: pip install 'driftline[networks]'"),
        ("driftline.evaluation.ContinualEvaluation", "needs pandas: pip install 'driftline[eval]'"),
        ("driftline.evaluation.metrics.fid", "needs PyTorch: pip install 'driftline[eval]'"),
        ("mlp", "model='mlp' needs PyTorch: pip install 'driftline[networks]'"),
        ("paper", "model='mlp' needs PyTorch: pip install 'driftline[networks]'"),
        (
            "tensors",
            "an objective of tensors needs PyTorch: pip install 'driftline[networks]', or pass a pair of NumPy",
        ),
    ],
)
def test_what_is_missing_is_named(without, name, wanted):
    assert wanted in without(*EVERYTHING)[0][name]


def test_no_error_is_bare(without):
    said = dict(without(*EVERYTHING)[0])
    assert said.pop("command") == 2
    assert [text for text in said.values() if not text.startswith("MissingExtraError: ")] == []
    assert "driftline: the command needs typer: pip install 'driftline[monitor]'" in without(*EVERYTHING)[1]


def test_watching_and_the_page_need_neither_pytorch_nor_matplotlib(without):
    said, _ = without(*(module for module in EVERYTHING if module not in EXTRAS["monitor"]))
    assert said.pop("command") == 0
    parts = ("monitor", "sources", "tables", "terminal", "synthetic")
    assert not [name for name in said if name.startswith(tuple(f"driftline.{part}." for part in parts))]
    assert {name for name in said if name.startswith("driftline.report.")} == {
        "driftline.report.draw",
        "driftline.report.plot",
        "driftline.report.write_png",
    }


@pytest.mark.full
@pytest.mark.networks
@pytest.mark.parametrize("extra", ["networks", "eval"])
def test_these_extras_need_no_other(without, extra):
    said, _ = without(*(module for module in EVERYTHING if module not in EXTRAS[extra]))
    assert not {"mlp", "paper", "tensors"} & set(said)
    packages = {"networks": ("features", "fitting"), "eval": ("evaluation", "features", "fitting")}[extra]
    assert not [name for name in said if name.startswith(tuple(f"driftline.{each}." for each in packages))]


def test_other_errors_of_an_import_stay_as_they_are():
    error = ModuleNotFoundError("no such thing", name="numpy.nothing")
    assert missing(error, "x") is error
    get, *_ = attach("driftline.alarms_of_old", tables.__file__)
    with pytest.raises(AttributeError):
        get("no_such_name")
    with pytest.raises(ModuleNotFoundError, match="alarms_of_old"):
        get("TableEncoder")


def test_needs(monkeypatch):
    needs("numpy", "anything")
    monkeypatch.setitem(sys.modules, "rich", None)
    assert not is_installed("rich")
    with pytest.raises(MissingExtraError, match=r"^a screen needs rich: pip install .*, or look away$") as info:
        needs("rich", "a screen", advice="or look away")
    assert info.value.name == "rich"


ALONE = """
import sys
class Without:  # not None in sys.modules: SciPy looks there for torch.Tensor
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("torch is missing", name="torch")
sys.meta_path.insert(0, Without())
import numpy as np
from driftline import ContinualDensityRatio, DensityRatio
rng = np.random.default_rng(0)
for objective in ("logistic", "kliep", "nwj", "lsif"):
    for model in ("linear", "quadratic", "quadratic-full", "auto"):
        est = ContinualDensityRatio(objective, model, random_state=0).fit(rng.normal(size=(900, 2)))
        for t in (1, 2):
            est = ContinualDensityRatio.from_bytes(est.to_bytes()).partial_fit(rng.normal(0.1 * t, 1, (900, 2)))
        est.divergence("js"), est.divergence("kl"), est.attribution(), est.log_ratio(np.zeros((1, 2)), return_std=True)
penalised = ContinualDensityRatio("kliep", "quadratic", normalizer="self", penalty=10.0).fit(rng.normal(size=(900, 2)))
penalised.partial_fit(rng.normal(size=(900, 2))).partial_fit(rng.normal(size=(900, 2)))
pair = (lambda a, b: np.exp(b).mean() - a.mean(), lambda a, b: (np.full(len(a), -1 / len(a)), np.exp(b) / len(b)))
DensityRatio(pair, device="cuda").fit(rng.normal(size=(900, 2)), rng.normal(size=(900, 2)))
print("done")
"""


def test_log_linear_models_need_no_torch():
    done = subprocess.run([sys.executable, "-W", "error", "-c", ALONE], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr

"""The core without its extras: features that need one name it, and the rest works."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(("pyarrow", "pandas", "typer", "rich", "matplotlib")))
import driftline, driftline.cli, driftline.evaluation, driftline.tables
from driftline.estimators import ContinualDensityRatio
from driftline.features import ContinualVAE
from driftline.inference import divergence
for action in (
    lambda: driftline.Monitor,
    lambda: driftline.tables.TableEncoder,
    lambda: driftline.evaluation.ContinualEvaluation,
    lambda: driftline.TableDecoder,
):
    try:
        action()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print("no error")
exec("from driftline import *; __version__")
print(driftline.cli.run(["--help"]))
"""


@pytest.fixture(scope="module")
def said():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (0, "ImportError: driftline.Monitor needs pyarrow: pip install 'driftline[monitor]'"),
        (1, "tables need pyarrow: pip install 'driftline[monitor]'"),
        (2, "ModuleNotFoundError: driftline.evaluation needs pandas: pip install 'driftline[eval]'"),
        (3, "AttributeError: "),
        (4, "2"),
    ],
)
def test_missing_extra_is_named(said, line, wanted):
    assert wanted in said[0][line]


def test_the_command_names_its_missing_extra(said):
    assert "the command needs typer: pip install 'driftline[monitor]'" in said[1]


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

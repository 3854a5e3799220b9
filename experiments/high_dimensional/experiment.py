"""Tab. 2: f-divergences by density ratios on 1,280 features, generated against real images and real against real.

The paper has samples of StyleGAN, faces of FFHQ and the 2,048 features of inception. None of them can be had without a
large download. Here are enlarged images of Fashion-MNIST in the features of EfficientNet-Lite0, trained on ImageNet,
and samples that the experiment ``gans`` has kept: ``--generated best=FILE worst=FILE``. Without any, real images are
blurred or made noisy instead. A pair of Gaussians of the same width says how far each estimator is from the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from driftline.evaluation.metrics import fid
from experiments.arguments import check_above_zero, check_among, check_at_least, flag
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.files import write_arrays
from experiments.high_dimensional.estimators import BOUNDS, ESTIMATORS, OF_FIT, Floats, Recipe, read
from experiments.high_dimensional.features import COLUMNS, pretrained
from experiments.high_dimensional.figures import caption_of, divergences_figure, samples_figure
from experiments.high_dimensional.samples import (
    REAL,
    gaussian_pair,
    gaussian_truth,
    image_pair,
    images_of,
    known_samples,
)
from experiments.high_dimensional.verdict import verdict_of
from experiments.labelled import Images, load
from experiments.methods import PAPER_EPOCHS, PAPER_RATE

_SHOWN = 40  # images of a sample in the figure


@dataclass(frozen=True)
class Args:
    """Arguments of the data, of the comparisons, and of the paper's networks."""

    seeds: int = 3
    dataset: str = "fashion-mnist"
    generated: tuple[str, ...] = flag((), "samples to judge, NAME=FILE each; without any, blurred and noisy images")
    pool: int = flag(8000, "images of each sample that draws are taken from")
    rows: int = flag(4000, "images of each sample to fit on, in each draw; at least 10")
    new: int = flag(2000, "images of each sample to test on, in each draw; at least 10")
    size: int = flag(64, "pixels a side that images are enlarged to; at least 32")
    shift: float = flag(0.5, "shift of the two Gaussians in each of 20 directions, in standard deviations")
    epochs: int = 10
    rate: float = 1e-3
    estimators: tuple[str, ...] = flag(("auto", "printed"), f"estimators to run, of {', '.join(ESTIMATORS)}")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "epochs")
        check_at_least(self, 32, "size")  # the network halves it five times
        check_at_least(self, 10, "rows", "new")
        check_above_zero(self, "rate", "shift")
        known_samples(self.generated)
        check_among(self, "estimators", ESTIMATORS)


def units(args: Args) -> list[Unit]:
    """Each pair of samples with each draw: features that one needs are there for the next."""
    rows = len(args.estimators) * (2 * len(BOUNDS) + 3)
    cases = {**dict.fromkeys((*known_samples(args.generated), REAL), rows + 1), "gaussians": rows + len(BOUNDS)}
    return [Unit(case, seed, count) for seed in range(args.seeds) for case, count in cases.items()]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """One draw of one pair of samples, by all estimators; features for all draws lie beside ``work``."""
    if unit.case == "gaussians":
        report("drawing")
        pair = gaussian_pair(COLUMNS, args.rows, args.new, args.shift, unit.seed)
        for measure in BOUNDS:
            truth = gaussian_truth(measure, args.shift)
            yield {"estimator": "truth", "measure": measure, "way": "truth", "value": truth}
    else:
        report("features")
        real, other = (_features(args, name, work.parent) for name in ("", unit.case))
        pair = image_pair(real, other, args.rows, args.new, unit.seed)
        report("FID")
        yield {"estimator": "fid", "measure": "fid", "way": OF_FIT, "value": fid(pair.original, pair.current)}
    for name in args.estimators:
        report(ESTIMATORS[name])
        recipe = Recipe(args.epochs, args.rate)
        yield from read(recipe, name, pair, unit.seed, lambda words, name=name: report(f"{name}: {words}"))  # type: ignore[misc]


def _images(args: Args, name: str) -> Images:
    """``pool`` images of a sample; the real ones that others are compared with have no name."""
    data = load(args.dataset)
    if 2 * args.pool > len(data.train):
        raise ValueError(f"--pool {args.pool}: twice as many are needed, {args.dataset} has {len(data.train)} images")
    if not name:
        return data.train[: args.pool]
    found = images_of(name, known_samples(args.generated).get(name), data.train[args.pool : 2 * args.pool])
    return found[: args.pool]


def _features(args: Args, name: str, folder: Path) -> Floats:
    """Features of a sample, kept in ``folder``: they take longer than the estimates."""
    images = _images(args, name)
    digest = sha256(images.tobytes() + bytes([args.size % 256, args.size // 256])).hexdigest()[:10]
    path = folder / f"features-{name or 'original'}-{digest}.npz"
    if not path.exists():
        write_arrays(path, features=pretrained(args.size)(images))
    with np.load(path) as kept:
        return np.asarray(kept["features"])


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Divergences by estimator, a panel a pair of samples."""
    return divergences_figure(frame)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """The first images of each sample."""
    names = ("", *known_samples(args.generated))
    return {"samples": samples_figure({name or REAL: _images(args, name)[:_SHOWN] for name in names})}


def caption(args: Args) -> str:
    """Say what the figure shows, and what differs from the paper."""
    return caption_of(args)


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claim about f-divergences in many dimensions against the numbers."""
    return verdict_of(frame)


EXPERIMENT = Experiment(
    name="high-dimensional",
    paper="Tab. 2",
    title="f-divergences of generated from real images on 1,280 features",
    presets={
        "quick": Args(),
        "paper": Args(
            pool=30_000,
            rows=20_000,
            new=5000,
            size=224,
            epochs=PAPER_EPOCHS,
            rate=PAPER_RATE,
            estimators=tuple(ESTIMATORS),
        ),
    },
    work=Work(units, run, keeps=True),
    results=Results(figure, caption, verdict, extras),
    in_all=False,
    folder_fields=("dataset",),
    takes={"quick": "3 min", "paper": "~4 h"},
)

"""Tab. 2: f-divergences by density ratios on 2,048 features, generated against real images and real against real.

The paper has samples of StyleGAN and inception's features. Here are generators of different quality that can be trained
on one core, and activations of a classifier; a pair of Gaussians says how far each estimator is from the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from driftline.evaluation.metrics import fid
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.gans.training import Settings
from experiments.high_dimensional.estimators import BOUNDS, ESTIMATORS, OF_FIT, Pair, Recipe, read
from experiments.high_dimensional.figures import caption_of, divergences_figure, samples_figure
from experiments.high_dimensional.samples import (
    GENERATORS,
    Generator,
    features,
    gaussian_pair,
    gaussian_truth,
    generator,
    image_pair,
)
from experiments.high_dimensional.verdict import verdict_of
from experiments.labelled import load
from experiments.parts import read_samples, write_samples

_SHOWN = 40  # images of a generator that are kept for the figure


@dataclass(frozen=True)
class Args:
    """Arguments of the data, of the networks trained on the first ``seen`` images, of comparisons and estimators.

    ``dataset`` is fashion-mnist or mnist, or digits (8 x 8, bundled with scikit-learn, for tests). ``rows`` of each
    sample are fitted and ``new`` ones held out. ``shift`` is that of the Gaussians in each of 20 directions, in
    standard deviations. ``iterations`` are those of the GAN, ``mixture`` the Gaussians of the mixture; ``ridge`` is the
    penalised estimators', in observations.
    """

    seeds: int = 3
    dataset: str = "fashion-mnist"
    seen: int = 30000
    rows: int = 8000
    new: int = 4000
    columns: int = 2048
    classifier_width: float = 0.25
    classifier_epochs: int = 3
    architecture: str = "quick"
    iterations: int = 4000
    mixture: int = 50
    shift: float = 0.5
    ridge: float = 300.0
    components: int = 64
    kliep_epochs: int = 10
    kliep_rate: float = 1e-3
    estimators: tuple[str, ...] = ("auto", "linear-ridge", "mlp", "kliep", "pca")


def units(args: Args) -> list[Unit]:
    """Generators first, each of them once: what they train is there for the other draws."""
    if unknown := sorted(set(args.estimators) - set(ESTIMATORS)):
        raise ValueError(f"estimators {unknown} are unknown: choose among {list(ESTIMATORS)}")
    rows = len(args.estimators) * (2 * len(BOUNDS) + 3)
    cases = {**dict.fromkeys(GENERATORS, rows + 1), "real": rows + 1, "gaussians": rows + len(BOUNDS)}
    return [Unit(case, seed, count) for seed in range(args.seeds) for case, count in cases.items()]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """One draw of one pair of samples, by all estimators; networks trained for all draws lie beside ``work``."""
    if unit.case == "gaussians":
        report("drawing")
        pair = gaussian_pair(args.columns, args.rows, args.new, args.shift, unit.seed)
        for measure in BOUNDS:
            yield {
                "estimator": "truth",
                "measure": measure,
                "way": "truth",
                "value": gaussian_truth(measure, args.shift),
            }
    else:
        pair = _images(args, unit, report, work)
        report("FID")
        yield {"estimator": "fid", "measure": "fid", "way": OF_FIT, "value": fid(pair.original, pair.current)}
    recipe = Recipe(args.ridge, args.components, args.kliep_epochs, args.kliep_rate)
    for name in args.estimators:
        report(ESTIMATORS[name])
        yield from read(recipe, name, pair, unit.seed, lambda words, name=name: report(f"{name}: {words}"))  # type: ignore[misc]


def _images(args: Args, unit: Unit, report: Report, work: Path) -> Pair:
    data, folder = load(args.dataset), work.parent
    made: Generator | None = None
    if unit.case in GENERATORS:
        settings = Settings(
            architecture=args.architecture, iterations=args.iterations, generator_rate=2e-4, average=0.999
        )
        made = generator(
            unit.case, data, args.dataset, args.seen, folder, settings=settings, components=args.mixture, report=report
        )
        shown = np.round(255 * made.draw(_SHOWN, unit.seed)).astype(np.uint8)
        write_samples(work, shown)
    report("classifier and features")
    net = features(
        data,
        args.dataset,
        args.seen,
        folder,
        columns=args.columns,
        width=args.classifier_width,
        epochs=args.classifier_epochs,
    )
    return image_pair(data, args.seen, args.rows, args.new, unit.seed, net.transform, made)


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Divergences by estimator, a panel a pair of samples."""
    return divergences_figure(frame)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """Samples of each generator's first draw."""
    grids = read_samples(folder, args, units(args))
    return {"samples": samples_figure(grids)} if grids else {}


def caption(args: Args) -> str:
    """Say what the figure shows, and what differs from the paper."""
    return caption_of(args.dataset, args.columns, args.rows, args.new, args.seen, args.seeds)


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claim about f-divergences in 2,048 dimensions against the numbers."""
    return verdict_of(frame)


EXPERIMENT = Experiment(
    name="high-dimensional",
    paper="Tab. 2",
    title="f-divergences of generated from real images on 2,048 features",
    presets={
        "quick": Args(),
        "paper": Args(
            seeds=5,
            seen=20000,
            rows=20000,
            new=5000,
            classifier_width=1.0,
            classifier_epochs=15,
            architecture="paper",
            iterations=5000,
            mixture=100,
            kliep_epochs=500,
            kliep_rate=1e-5,
            estimators=tuple(ESTIMATORS),
        ),
    },
    work=Work(units, run, keeps=True),
    results=Results(figure, caption, verdict, extras),
    in_all=False,
    folder_fields=("dataset",),
)

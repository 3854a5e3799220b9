"""Tab. 1 and Fig. 7: what FID, KID, precision and recall, and f-divergences say of two samples.

First half of the classes against all of them, and the reverse, on a classifier's features; then two noises on pixels.
P is the original of the ratio and the "real" sample, Q the current and the "generated" one: ``kl`` is KL(P‖Q). The
paper does not say which half, which features, how many images, nor whether corrupted images share the pixels: we take
the lower labels in all runs, the features of the classifier that FID and KID have elsewhere, and both kinds of pixels.
Each case draws its own images, none of which is in both samples. KLIEP's network runs as printed, on standardised
columns, and as in the authors' code, on raw ones: many pixels of MNIST hardly vary, and standardising inflates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.arguments import check_above_zero, check_at_least, flag
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.labelled import classifier, classifier_path, load
from experiments.measures.cases import CLEAN, HALVES, NOISES, TRUTHS, halves, noisy, truths
from experiments.measures.figures import caption_of, curves_figure, measures_figure, noises_figure
from experiments.measures.readings import CODE, CURVE, DEFAULT, HELD_OUT, KLIEP, LINEAR, SAMPLES, by_ratio, by_samples
from experiments.measures.verdict import verdict_of

ON_FEATURES: tuple[str, ...] = (DEFAULT, KLIEP, CODE)
ON_PIXELS: tuple[str, ...] = (DEFAULT, LINEAR, KLIEP, CODE)


@dataclass(frozen=True)
class Args:
    """Arguments of the samples, of KLIEP's network, of KID and PRD, of the classifier."""

    seeds: int = 5
    dataset: str = "mnist"
    rows: int = flag(8000, "images of each sample for half of the classes; at least 100")
    pixel_rows: int = flag(5000, "images of each sample for noises; at least 100")
    held: int = flag(3000, "further images of each sample that nothing is fitted on; at least 100")
    epochs: int = 15
    rate: float = 1e-3
    subsets: int = flag(10, "subsets that KID is averaged over")
    angles: int = flag(101, "points of the PRD curve; at least 3")
    classifier_width: float = 0.25
    classifier_epochs: int = 3

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "epochs", "subsets", "classifier_epochs")
        check_at_least(self, 3, "angles")
        check_at_least(self, 100, "rows", "pixel_rows", "held")
        check_above_zero(self, "rate", "classifier_width")


PAPER = Args(
    rows=16_000, pixel_rows=25_000, epochs=500, rate=1e-5, subsets=100, classifier_width=1.0, classifier_epochs=15
)


def units(args: Args) -> list[Unit]:
    """Each case with each seed; those on pixels take longest."""
    ratios = len(TRUTHS) + len(HELD_OUT)
    on_pixels, on_features = 2 + ratios * len(ON_PIXELS), len(SAMPLES) + args.angles + ratios * len(ON_FEATURES)
    sizes = dict.fromkeys((CLEAN, *NOISES), on_pixels) | dict.fromkeys(HALVES, on_features)
    return [Unit(case, seed, rows) for case, rows in sizes.items() for seed in range(args.seeds)]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """A row for each measure, by each estimator, with the truth; nan where it is not known."""
    data = load(args.dataset)
    if unit.case in HALVES:
        report("classifier")
        width, epochs = args.classifier_width, args.classifier_epochs
        net = classifier(data, classifier_path(work.parent, args.dataset, width, epochs), width=width, epochs=epochs)
        images = halves(data, unit.case, args.rows, args.held, unit.seed)
        parts = tuple(net.transform(part) for part in images[:4])
    else:
        images = noisy(data, unit.case, args.pixel_rows, args.held, unit.seed)
        parts = tuple(part.reshape(len(part), -1).astype(float) for part in images[:4])
    estimators, angles = (ON_FEATURES, args.angles) if unit.case in HALVES else (ON_PIXELS, 0)
    expected = truths(images.share, p_within=unit.case != "Q half")
    report("without a ratio")
    yield from by_samples(*parts[:2], subsets=args.subsets, angles=angles, seed=unit.seed)
    for name in estimators:
        report(name)
        yield from by_ratio(
            name, *parts, truths=expected, epochs=args.epochs, rate=args.rate, seed=unit.seed, report=report
        )


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Tab. 1 above, Fig. 7b below."""
    return measures_figure(frame)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """Fig. 7a, and what the noises look like."""
    data = load(args.dataset)
    cases = {case: noisy(data, case, args.pixel_rows, args.held, 0).held_q for case in (CLEAN, *NOISES)}
    return {CURVE: curves_figure(frame), "samples": noises_figure(cases)}


def caption(args: Args) -> str:
    """Say what the figure shows, and what is smaller than at the paper's scale."""
    return caption_of(args, PAPER)


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claims about the measures against the numbers."""
    return verdict_of(frame)


EXPERIMENT = Experiment(
    name="measures",
    paper="Tab. 1, Fig. 7",
    title="what FID, KID, PRD and f-divergences say of half the classes and of noise",
    presets={"quick": Args(), "paper": PAPER},
    work=Work(units, run, keeps=True),
    results=Results(figure, caption, verdict, extras),
    in_all=False,
    folder_fields=("dataset",),
    takes={"quick": "5 min a seed", "paper": "~1 h a seed"},
)

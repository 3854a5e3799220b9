"""Fig. 5 and 6: four GANs that learn one class after the other, judged without keeping real images.

The GANs are trained first and leave samples on disk. After each task the four f-divergences come from CDRE on features
of a continual VAE; beside them stand what keeps the real images of all tasks: FID and KID on a classifier's features,
and the same divergences by static ratio estimation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.gans import samples
from experiments.gans.figures import caption_of, measures_figure, samples_figure, seconds_figure
from experiments.gans.judge import DIVERGENCES, KEEPING, Judge
from experiments.gans.losses import LOSSES
from experiments.gans.verdict import training_verdict, verdict_of
from experiments.labelled import classifier, classifier_path, load
from experiments.resuming import state_path, task_by_task
from experiments.resuming import tidy as forget

_SHOWN = 2  # images of each class in the figure
_JUDGED = "judged "
_MEASURES = 2 * len(DIVERGENCES) + len(KEEPING) + 1


@dataclass(frozen=True)
class Args:
    """Arguments of the data, of the GANs' training, of the judge.

    ``dataset`` is fashion-mnist or mnist, or digits (8 x 8, bundled with scikit-learn, for tests). ``training`` is
    guarded, or authors: weights drawn anew at each task, and losses that may overflow or saturate. ``iterations`` a
    task go before ``epochs`` unless 0; ``most`` of them are run unless 0. ``generator_rate`` is the paper's 1e-3 in its
    preset; dense generators are noisy at that rate and mix up classes, so ``quick`` has the critic's. ``clip`` bounds
    WGAN's weights, ``average`` is of the generator's running mean, which the paper does not have. ``generated`` counts
    the images of a class that are kept after each task, ``real`` those that the judge gets. ``estimator`` is default,
    or none to train only. ``encoder`` is own or latest: the autoencoder that a class's images are seen with, that of
    the time when it was learned or, as in the paper, the newest.
    """

    seeds: int = 1
    dataset: str = "fashion-mnist"
    tasks: int = 10
    models: tuple[str, ...] = tuple(LOSSES)
    device: str = "cpu"
    architecture: str = "quick"
    training: str = "guarded"
    iterations: int = 2000
    epochs: int = 15
    most: int = 0
    batch: int = 64
    critic_steps: int = 1
    critic_rate: float = 2e-4
    generator_rate: float = 2e-4
    penalty: float = 10.0
    clip: float = 0.05
    average: float = 0.999
    generated: int = 4000
    estimator: str = "default"
    real: int = 4000
    encoder: str = "own"
    vae_epochs: int = 6
    classifier_width: float = 0.25
    classifier_epochs: int = 3


def units(args: Args) -> list[Unit]:
    """All models for each seed, the slowest first: their trainings, then their judging."""
    if unknown := sorted(set(args.models) - set(LOSSES)):
        raise ValueError(f"--models {' '.join(unknown)}: choose among {', '.join(LOSSES)}")
    samples.settings(args)
    order = sorted(args.models, key=lambda model: not LOSSES[model].penalty)
    pairs = [(model, seed) for seed in range(args.seeds) for model in order]
    trained = [samples.training_unit(args, model, seed) for model, seed in pairs]
    if args.estimator == "none":
        return trained
    rows = args.tasks + _MEASURES * args.tasks * (args.tasks + 1) // 2
    return trained + [Unit(_JUDGED + model, seed, rows, stage=1) for model, seed in pairs]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Train or judge, task by task; an interrupted unit goes on from the last task in ``work``."""
    if not unit.case.startswith(_JUDGED):
        yield from samples.train(args, unit, report, work)
        return
    model, folder = unit.case.removeprefix(_JUDGED), work.parent.parent
    data = load(args.dataset)
    report("classifier")
    width, epochs = args.classifier_width, args.classifier_epochs
    net = classifier(data, classifier_path(work.parent, args.dataset, width, epochs), width=width, epochs=epochs)
    judge = Judge(data, net, epochs=args.vae_epochs, real=args.real, seed=unit.seed, encoder=args.encoder)
    ready = 0

    def read(task: int) -> Iterator[Row]:
        nonlocal ready
        generated = samples.read(folder, args, model, unit.seed, task)
        if generated is None:
            raise FloatingPointError(f"the training of {model} diverged at task {task + 1}")
        if ready < task:
            judge.load(state_path(work, task - 1))
        report(f"task {task + 1}: autoencoder")
        judge.begin(task)
        report(f"task {task + 1}: judging")
        yield from ({"case": model, **row} for row in judge.read(generated))
        judge.save(state_path(work, task))
        ready = task + 1

    yield from task_by_task(work, args.tasks, read)


def tidy(args: Args, work: Path) -> None:
    """Delete what only an interrupted unit needs; samples stay."""
    forget(work)


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Fig. 5: averages over tasks learned; of a training alone, what it took."""
    judged = frame[~frame.measure.isin(samples.MEASURES)]
    return seconds_figure(frame) if judged.empty else measures_figure(judged)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """Fig. 6: samples of each model's first seed."""
    found = {model: samples.grid(folder, args, model, 0, _SHOWN) for model in args.models}
    grids = {model: images for model, images in found.items() if images is not None}
    return {"samples": samples_figure(grids)} if grids else {}


def caption(args: Args) -> str:
    """Say what the figure shows, and what is smaller than in the paper."""
    return caption_of(asdict(args))


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claims about the models against the numbers; of a training alone, how it went."""
    judged = frame[~frame.measure.isin(samples.MEASURES)]
    return training_verdict(frame) if judged.empty else verdict_of(judged)


EXPERIMENT = Experiment(
    name="gans",
    paper="Fig. 5, 6",
    title="four GANs that learn class after class, judged by CDRE",
    presets={
        "quick": Args(),
        "paper": Args(
            architecture="paper",
            training="authors",
            iterations=0,
            generator_rate=1e-3,
            penalty=0.25,
            clip=0.01,
            average=0.0,
            real=6000,
            generated=6000,
            encoder="latest",
            vae_epochs=50,
            classifier_width=1.0,
            classifier_epochs=15,
        ),
    },
    work=Work(units, run, keeps=True, tidy=tidy),
    results=Results(figure, caption, verdict, extras),
    in_all=False,
    folder_fields=("dataset", "architecture"),
)

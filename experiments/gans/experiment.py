"""Fig. 5 and 6: four GANs that learn one class after the other, judged without keeping real images.

After each task the four f-divergences come from CDRE on features of a continual VAE; beside them stand what keeps the
real images of all tasks: FID and KID on a classifier's features, and the same divergences by static ratio estimation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.files import write_atomically
from experiments.gans.figures import caption_of, measures_figure, samples_figure
from experiments.gans.judge import DIVERGENCES, KEEPING, Judge
from experiments.gans.losses import LOSSES
from experiments.gans.training import ContinualGAN, Settings
from experiments.gans.verdict import verdict_of
from experiments.labelled import Data, classifier, classifier_path, load
from experiments.parts import read_samples, write_samples

_SHOWN = 8  # images of each class that are kept for the figure
_ROWS = "rows.json"
_MEASURES = 2 * len(DIVERGENCES) + len(KEEPING) + 1


@dataclass(frozen=True)
class Args:
    """Arguments of the data, of the GANs' training, of the judge.

    ``dataset`` is fashion-mnist or mnist, or digits (8 x 8, bundled with scikit-learn, for tests). ``iterations`` a
    task go before ``epochs`` unless 0. ``generator_rate`` is the paper's 1e-3 in its preset; dense generators are
    noisy at that rate and mix up classes, so ``quick`` has the critic's. ``clip`` bounds WGAN's weights, ``average``
    is of the generator's running mean, which the paper does not have. ``real`` and ``generated`` count images of a
    class that the judge gets. ``encoder`` is own or latest: the autoencoder that a class's images are seen with, that
    of the time when it was learned or, as in the paper, the newest.
    """

    seeds: int = 1
    dataset: str = "fashion-mnist"
    tasks: int = 10
    architecture: str = "quick"
    iterations: int = 2000
    epochs: int = 15
    batch: int = 64
    critic_steps: int = 1
    critic_rate: float = 2e-4
    generator_rate: float = 2e-4
    penalty: float = 10.0
    clip: float = 0.05
    average: float = 0.999
    real: int = 4000
    generated: int = 4000
    encoder: str = "own"
    vae_epochs: int = 6
    classifier_width: float = 0.25
    classifier_epochs: int = 3


def units(args: Args) -> list[Unit]:
    """All models for each seed, the slowest first."""
    rows = args.tasks + _MEASURES * args.tasks * (args.tasks + 1) // 2
    order = sorted(LOSSES, key=lambda model: -LOSSES[model].penalty)
    return [Unit(model, seed, rows) for seed in range(args.seeds) for model in order]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Learn and judge, task by task.

    ``work`` holds the networks after each task, the judge and its rows until the unit is finished: an interrupted unit
    goes on from the last of them.
    """
    data = load(args.dataset)
    report("classifier")
    width, epochs = args.classifier_width, args.classifier_epochs
    net = classifier(data, classifier_path(work.parent, args.dataset, width, epochs), width=width, epochs=epochs)
    judge = Judge(data, net, epochs=args.vae_epochs, real=args.real, seed=unit.seed, encoder=args.encoder)
    gan = ContinualGAN(unit.case, data.train.shape[1:], args.tasks, _settings(args), seed=unit.seed)
    shown = np.zeros((args.tasks, args.tasks, _SHOWN, *gan.shape), np.uint8)
    rows = _resumed(judge, work)
    yield from rows
    judged = max((int(row["task"]) for row in rows), default=0)
    for task in range(args.tasks):
        if task >= judged:
            report(f"task {task + 1}: autoencoder")
            judge.begin(task)
        _learn(gan, data, task, work, report)
        generated = {k: gan.sample(k, args.generated) for k in range(task + 1)}
        for k, images in generated.items():
            shown[task, k] = np.round(255 * images[:_SHOWN])
        if task >= judged:
            report(f"task {task + 1}: judging")
            found = list(judge.read(generated))
            rows = [*rows, *found]
            _remember(judge, rows, task, work)
            yield from found
    write_samples(work, shown)


def tidy(args: Args, work: Path) -> None:
    """Delete all but the last networks, which are kept to draw from; the rows go before the judge, whom they name."""
    for path in (work / _ROWS, *_judges(work), *(_checkpoint(work, task) for task in range(args.tasks - 1))):
        path.unlink(missing_ok=True)


def _resumed(judge: Judge, work: Path) -> list[Row]:
    """Rows of an interrupted run, the judge put back to where it stood after them."""
    if not (work / _ROWS).exists():
        return []
    kept = json.loads((work / _ROWS).read_text(encoding="utf-8"))
    if not (work / kept["judge"]).exists():
        return []
    judge.load(work / kept["judge"])
    rows: list[Row] = kept["rows"]
    return rows


def _remember(judge: Judge, rows: list[Row], task: int, work: Path) -> None:
    """Save the judge first, then the rows, which name it; then the judge before is not needed any more."""
    path = work / f"judge-{task + 1}.safetensors"
    judge.save(path)
    text = json.dumps({"judge": path.name, "rows": rows})
    write_atomically(work / _ROWS, lambda draft: draft.write_text(text, encoding="utf-8"))
    for old in _judges(work):
        if old != path:
            old.unlink()


def _judges(work: Path) -> list[Path]:
    return sorted(work.glob("judge-*.safetensors"))


def _learn(gan: ContinualGAN, data: Data, task: int, work: Path, report: Report) -> None:
    path = _checkpoint(work, task)
    if path.exists():
        gan.load(path)
        return
    gan.learn(data.of(task), lambda i, n: report(f"task {task + 1}: {gan.model} {i}/{n}"))
    gan.save(path)


def _checkpoint(work: Path, task: int) -> Path:
    return work / f"task-{task + 1}.safetensors"


def _settings(args: Args) -> Settings:
    """The GANs' settings, which are arguments of the same names; the others stay at their defaults."""
    given = asdict(args)
    return Settings(**{field.name: given[field.name] for field in fields(Settings) if field.name in given})


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Fig. 5: averages over tasks learned."""
    return measures_figure(frame)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """Fig. 6: samples of each model's first seed."""
    grids = read_samples(folder, args, units(args))
    return {"samples": samples_figure(grids)} if grids else {}


def caption(args: Args) -> str:
    """Say what the figure shows, and what is smaller than in the paper."""
    return caption_of(asdict(args))


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claims about the models against the numbers."""
    return verdict_of(frame)


EXPERIMENT = Experiment(
    name="gans",
    paper="Fig. 5, 6",
    title="four GANs that learn class after class, judged by CDRE",
    presets={
        "quick": Args(),
        "paper": Args(
            seeds=10,
            architecture="paper",
            iterations=0,
            generator_rate=1e-3,
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
    folder_fields=("dataset", "encoder"),
)

"""Fig. 5, 6, 8 and 9: four GANs that learn one class after the other, judged without keeping real images.

The GANs are trained first and leave samples on disk, then an autoencoder is trained along with each. Any judge may look
at these: CKLIEP as in the paper, driftline's default, static estimation with all real images, FID, KID, PRD and a
classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.arguments import check_among, check_at_least, flag
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.gans import features, samples
from experiments.gans.figures import caption_of, figure_of, further_of
from experiments.gans.judges import ESTIMATORS, TRUTH, Judge, judge
from experiments.gans.losses import LOSSES
from experiments.gans.verdict import verdict_of
from experiments.labelled import DATASETS
from experiments.resuming import tidy

_NONE, _USUAL = "none", "usual"


@dataclass(frozen=True)
class Args:
    """Arguments of the data, of the GANs' training, of the features, of the judges.

    Dense generators are noisy at the paper's ``generator_rate`` and mix up classes, so ``quick`` has the critic's. The
    paper's ``ckliep_batch`` of 2,000 is for its 20,000 rows a class; 5,000 to train on make as many steps an epoch in
    batches of 500.
    """

    seeds: int = 1
    dataset: str = "fashion-mnist"
    tasks: int = flag(10, "classes to learn, one after the other")
    models: tuple[str, ...] = flag(tuple(LOSSES), f"models to train, of {', '.join(LOSSES)}")
    device: str = "cpu"
    architecture: str = flag("quick", "of generator and critic: quick (dense), paper (convolutional)")
    training: str = flag("guarded", "guarded, or authors: new weights at each task, losses that may overflow")
    iterations: int = flag(2000, "generator steps a task; 0 to count --epochs instead")
    epochs: int = flag(15, "passes over a task's images, if --iterations is 0")
    most: int = flag(0, "bound of the generator steps that --epochs ask for; 0 for none")
    precision: str = flag("float32", "of the GANs' matrix products: float32, or bfloat16 in half the time")
    batch: int = flag(64, "images of a training step")
    critic_steps: int = flag(1, "critic steps for each step of the generator")
    critic_rate: float = flag(2e-4, "learning rate of the critic")
    generator_rate: float = flag(2e-4, "learning rate of the generator")
    penalty: float = flag(10.0, "weight of WGAN-GP's gradient penalty")
    clip: float = flag(0.05, "bound of the weights of WGAN's critic")
    average: float = flag(0.999, "decay of the generator's running mean, which the paper does not have; 0 for none")
    generated: int = flag(4000, "images of each class that are kept after each task")
    estimator: tuple[str, ...] = flag(
        ("default", "static"), f"estimators that judge, of {', '.join(ESTIMATORS)}; {_NONE} to train only"
    )
    features: tuple[str, ...] = flag(("vae",), "features that they judge in, of vae, classifier")
    encoder: tuple[str, ...] = flag(
        (_USUAL,), f"encoders of a class: latest (the paper's), own (of its task), {_USUAL} (what suits the estimator)"
    )
    output: tuple[str, ...] = flag(("draw",), "what an encoder gives of its posterior, of draw, mean")
    estimator_seeds: int = flag(1, "runs of each estimator on the same samples")
    rows: int = flag(4000, "most images of a class, real and generated, that are judged")
    vaes: int = flag(1, "autoencoders that the runs of an estimator share")
    vae_epochs: int = flag(6, "epochs of an autoencoder, at each task")
    vae_likelihood: str = flag(
        "bernoulli", "of an autoencoder: bernoulli, or pixels (Gaussian, as the authors have it)"
    )
    vae_prior: float = flag(1.0, "standard deviation of an autoencoder's prior")
    ckliep_epochs: int = flag(100, "most epochs of a step of CKLIEP; at least 100 are run if there are as many")
    ckliep_batch: int = flag(500, "rows of a training step of CKLIEP")
    classifier_width: float = 0.25
    classifier_epochs: int = 3


def units(args: Args) -> list[Unit]:
    """For all models and seeds, the slowest first: trainings, then autoencoders, then judges."""
    _check(args)
    judges = _judges(args)
    seen = {(about.model, about.seed, about.run % args.vaes): None for about in judges if about.features == "vae"}
    return [
        *(samples.training_unit(args, model, seed) for model, seed in _pairs(args)),
        *(features.encoders_unit(args, *which) for which in seen),
        *(about.unit(args) for about in judges),
    ]


def _check(args: Args) -> None:
    check_at_least(args, 1, "tasks", "generated", "rows", "vaes", "estimator_seeds")
    check_among(args, "dataset", DATASETS)
    check_among(args, "models", LOSSES)
    check_among(args, "training", samples.TRAININGS)
    check_among(args, "precision", ("float32", "bfloat16"))
    check_among(args, "estimator", (*ESTIMATORS, _NONE))
    check_among(args, "features", features.FEATURES)
    check_among(args, "encoder", (*features.ENCODERS, _USUAL))
    check_among(args, "output", features.OUTPUTS)


def _pairs(args: Args) -> list[tuple[str, int]]:
    order = sorted(args.models, key=lambda model: not LOSSES[model].penalty)
    return [(model, seed) for seed in range(args.seeds) for model in order]


def _judges(args: Args) -> list[Judge]:
    """All judges that the arguments ask for; measures that keep real images are always among them."""
    if _NONE in args.estimator:
        return []
    asked = [name for name in ESTIMATORS if name in args.estimator]
    found = []
    for (model, seed), name, kind in product(_pairs(args), asked, args.features):
        runs = range(args.estimator_seeds if name != TRUTH else args.vaes if kind == "vae" else 1)
        ways = product(_encoders(args, name, asked), args.output) if kind == "vae" else [("", "")]
        found += [Judge(model, seed, name, kind, *way, run) for way in ways for run in runs]
    return [*found, *(Judge(model, seed) for model, seed in _pairs(args))]


def _encoders(args: Args, name: str, asked: list[str]) -> list[str]:
    """Return the encoders that an estimator is run in; the truth is wanted in those of the others."""
    if _USUAL not in args.encoder:
        return list(args.encoder)
    others = [other for other in asked if other != TRUTH] if name == TRUTH else [name]
    return sorted({ESTIMATORS[other].encoder for other in others or [name]})


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Train or judge, task by task; an interrupted unit goes on from the last task in ``work``."""
    if unit.stage == 0:
        yield from samples.train(args, unit, report, work)
    elif unit.stage == 1:
        yield from features.learn(args, unit, report, work)
    else:
        about = {about.unit(args).case: about for about in _judges(args) if about.seed == unit.seed}[unit.case]
        yield from judge(args, about, report, work)


def narrowed(args: Args, frame: pd.DataFrame) -> Args:
    """Return the arguments that the rows are of, if only some units are finished."""

    def among(values: tuple[str, ...], column: str) -> tuple[str, ...]:
        return tuple(value for value in values if value in set(frame.get(column, ())))

    return replace(
        args,
        models=among(args.models, "case"),
        estimator=among(args.estimator, "estimator") or (_NONE,),
        features=among(args.features, "features"),
    )


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Fig. 5: averages over tasks learned, by CKLIEP if it was run; of a training alone, what it took."""
    return figure_of(frame)


def extras(folder: Path, frame: pd.DataFrame, args: Args) -> dict[str, Figure]:
    """Fig. 6, samples of each model's first seed; and estimators against static estimation."""
    return further_of(folder, frame, args)


def caption(args: Args) -> str:
    """Say what the figure shows, and what is smaller than in the paper."""
    return caption_of(asdict(args))


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The paper's claims about the models against the numbers, and who ranks the models how."""
    return verdict_of(frame)


EXPERIMENT = Experiment(
    name="gans",
    paper="Fig. 5, 6, 8, 9",
    title="four GANs that learn class after class, judged by CKLIEP, driftline and others",
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
            generated=6000,
            estimator=("paper", "default", "static"),
            features=features.FEATURES,
            estimator_seeds=3,
            rows=20000,
            vae_epochs=100,
            vae_likelihood="pixels",
            vae_prior=0.1,
            ckliep_epochs=1000,
            ckliep_batch=2000,
            classifier_width=1.0,
            classifier_epochs=15,
        ),
    },
    work=Work(units, run, keeps=True, tidy=tidy),  # samples and encoders stay
    results=Results(figure, caption, verdict, extras, ours="default|static", narrowed=narrowed),
    in_all=False,
    folder_fields=("dataset", "architecture"),
    takes={"quick": "~45 min", "paper": "~2 days"},
)

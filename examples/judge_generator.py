"""Judge generators from outside this library, scikit-learn's, that learn one digit after the other.

Each learns a task from real images once. When a later task comes, two of the three learn all earlier tasks again from
their own samples (generative replay), one from 50, one from 1000; copies of copies get worse. The third keeps its
models. ``ContinualEvaluation`` says how much worse, with error bars, from real images that are seen once. FID, which
has to keep them, is printed beside it.

    python examples/judge_generator.py --out runs/examples

Choices that make the numbers meaningful:

* A third of the real images train the generators, the others judge them. A generator judged by the images it was
  trained on is rewarded for repeating them.
* About 120 real images judge a task, far too few for 64 pixels. The features are four low frequencies, the same for
  every image: nothing is fitted, so nothing favours an early task. Anything else in an image is not judged.
* Each task is one digit, since the generators are Gaussians: log-ratios of Gaussians are quadratic, and so is the
  model of the ratio. Two digits per task would make mixtures, whose changes a quadratic understates.
* A generator gives any number of samples. More of them make the error bars smaller, until the real ones dominate.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.evaluation import ContinualEvaluation, matrix_figure, measures_figure, prd_figure, samples_figure
from driftline.evaluation.metrics import prd
from driftline.inference import Doubt

Images = npt.NDArray[np.float64]

TASKS = tuple("0123456789")
MEASURES = ("kl", "reverse_kl", "js", "fid")


def low_frequencies(images: Images) -> npt.NDArray[np.float64]:
    """Return the 4 lowest frequencies of each image's cosine transform, without its brightness."""
    found = dctn(images, axes=(1, 2), norm="ortho")
    return np.stack([found[:, i, j] for i, j in ((0, 1), (1, 0), (1, 1), (0, 2))], 1)


class Replay:
    """Gaussian for each task; at every new task, those of earlier tasks are fitted again to their own samples.

    Arguments:
        replayed: number of samples from which an earlier task is learned again; 0 to leave it as it is.
        seed: random seed.
    """

    def __init__(self, replayed: int, seed: int) -> None:
        self._replayed, self._seed = replayed, seed
        self._models: dict[str, tuple[PCA, GaussianMixture]] = {}

    def learn(self, task: str, images: Images) -> None:
        """Learn a new task, and earlier ones from replay."""
        for name in self._models if self._replayed else ():
            self._models[name] = self._fitted(self._draw(name, self._replayed))
        self._models[task] = self._fitted(images)

    def samples(self, count: int) -> dict[str, Images]:
        """Return ``count`` images of every task."""
        return {name: self._draw(name, count) for name in self._models}

    def _fitted(self, images: Images) -> tuple[PCA, GaussianMixture]:
        rows = images.reshape(len(images), -1)
        pca = PCA(10, random_state=self._fresh()).fit(rows)
        return pca, GaussianMixture(1, reg_covar=1.0, random_state=self._fresh()).fit(pca.transform(rows))

    def _draw(self, name: str, count: int) -> Images:
        pca, mixture = self._models[name]
        rows, _ = mixture.set_params(random_state=self._fresh()).sample(count)
        rows = np.random.default_rng(self._fresh()).permutation(rows)  # they are sorted by component
        images: Images = pca.inverse_transform(rows).reshape(-1, 8, 8)
        return images

    def _fresh(self) -> int:
        self._seed += 1
        return self._seed


def generators(seed: int) -> dict[str, Replay]:
    """Return three generators by name."""
    return {"50 replayed": Replay(50, seed), "1000 replayed": Replay(1000, seed), "kept": Replay(0, seed)}


def split(task: str, rng: np.random.Generator) -> tuple[Images, Images]:
    """Return real images of a digit: those to train on, and those to judge by."""
    digits = load_digits()
    images = digits.images[digits.target == int(task)]
    images = images[rng.permutation(len(images))]
    third = len(images) // 3
    return images[:third], images[third:]


def judged(
    tasks: Sequence[str], samples: int, seed: int
) -> tuple[dict[str, ContinualEvaluation], dict[str, Replay], list[Doubt]]:
    """Take all generators through all tasks; return their judges, the generators, and reasons not to trust numbers."""
    rng = np.random.default_rng(seed)
    models = generators(seed)
    ratio = ContinualDensityRatio(model="quadratic-full", random_state=seed)
    judges = {
        model: ContinualEvaluation(low_frequencies, measures=MEASURES, keep_real=True, estimator=ratio)
        for model in models
    }
    doubts: list[Doubt] = []
    for task in tasks:
        training, judging = split(task, rng)
        for model, generator in models.items():
            generator.learn(task, training)
            doubts += judges[model].task(task, judging).doubts
            doubts += judges[model].update(generator.samples(samples)).doubts
    return judges, models, doubts


def draw(
    judges: Mapping[str, ContinualEvaluation], models: Mapping[str, Replay], first: tuple[str, Images], folder: Path
) -> None:
    """Draw four figures."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {model: generator.samples(max(10, len(first[1]))) for model, generator in models.items()}
    real = low_frequencies(first[1])
    curves = {model: prd(real, low_frequencies(found[first[0]])) for model, found in images.items()}
    figures = {
        "measures": measures_figure(judges),
        "matrix": matrix_figure(judges, "reverse_kl"),
        "prd": prd_figure(curves),
        "samples": samples_figure({m: {t: x.clip(0, 16) for t, x in found.items()} for m, found in images.items()}),
    }
    figures["prd"].axes[0].set_title(f"samples of digit {first[0]} after the last task")
    for name, figure in figures.items():
        figure.savefig(folder / f"judge-{name}.png", dpi=110)


def main(arguments: Sequence[str] | None = None) -> dict[str, ContinualEvaluation]:
    """Run, print and draw."""
    parser = argparse.ArgumentParser(description="Judge scikit-learn's generators on digits, one per task.")
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder for the figures")
    parser.add_argument("--tasks", type=int, default=len(TASKS), choices=range(1, len(TASKS) + 1))
    parser.add_argument("--samples", type=int, default=2000, help="generated images of each task, drawn each time")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    tasks = TASKS[: args.tasks]
    warnings.filterwarnings("ignore", category=UntrustedEstimateWarning)  # doubts are counted instead
    judges, models, doubts = judged(tasks, args.samples, args.seed)
    first = {doubt.code: doubt for doubt in reversed(doubts)}
    kinds = Counter(doubt.code for doubt in doubts)
    print(f"{len(doubts)} doubts", *(f"{count} like: {first[code]}" for code, count in kinds.items()), sep="\n  ")
    for model, judge in judges.items():
        means, errors = judge.average(return_std=True)
        print(f"\n{model}: means over tasks so far, after each task")
        for task in tasks:
            row = "  ".join(f"{m} {means.at[task, m]:8.3f} ± {errors.at[task, m]:.3f}" for m in MEASURES)
            print(f"  {task}  {row.replace(' ± nan', '')}")
        print(f"  forgotten since learned [nats of reverse KL]: {judge.forgetting('reverse_kl').round(3).to_dict()}")
    draw(judges, models, (tasks[0], split(tasks[0], np.random.default_rng(args.seed))[1]), args.out)
    print(f"\nfigures: {args.out}/judge-*.png")
    return judges


if __name__ == "__main__":
    main()

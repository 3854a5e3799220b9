"""A conditional GAN that learns one class after the other, from real images of the new one and its own of others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from driftline.files import StateFileError, read_arrays, write_arrays
from driftline.fitting import resolve_device
from experiments.gans.losses import LOSSES, clip_weights, gradient_penalty
from experiments.gans.models import Critic, Generator

__all__ = ["ContinualGAN", "Settings"]

Images = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]

_FORMAT, _VERSION = "driftline-gan", 1
_BATCH = 2000  # images of one forward pass when nothing is trained
_LOOK = 50  # iterations between two reports of progress
_LEARN, _REPLAY, _SAMPLE, _WEIGHTS = range(4)  # what a seed is for


@dataclass(frozen=True)
class Settings:
    """Settings of a GAN's training on each task.

    Arguments:
        iterations: generator steps a task; 0 for ``epochs`` passes over the real and the replayed images.
        most: bound of the generator steps that ``epochs`` ask for; 0 for none.
        critic_steps: critic steps for each step of the generator.
        beta1: first decay rate of Adam; 0.5 in the authors' code, the paper does not say.
        penalty: weight of WGAN-GP's gradient penalty; 0.25 in the authors' code. There the norm is taken of each column
            of a map instead of the whole image, and the critic keeps WGAN's clipping and batch normalisation.
        clip: bound of the weights of WGAN's critic.
        average: share of the generator's weights that stays in their running mean after each step. The mean is what
            is drawn from after a task, and what the next one starts from; 0 for the last weights.
        safe: whether reverse KL's exponential is guarded and the generator of JS does not saturate. The authors have
            neither.
        fresh: whether each task starts from new weights, as in the authors' code, or from those of the task before.
        precision: of matrix products while training, "float32" or "bfloat16", which halves the time on processors that
            support it.
    """

    architecture: str = "quick"
    iterations: int = 0
    epochs: int = 15
    most: int = 0
    batch: int = 64
    noise: int = 64
    critic_steps: int = 1
    critic_rate: float = 2e-4
    generator_rate: float = 1e-3
    beta1: float = 0.5
    penalty: float = 10.0
    clip: float = 0.01
    average: float = 0.0
    safe: bool = True
    fresh: bool = False
    precision: str = "float32"


class ContinualGAN:
    """A GAN that learns one class a task; earlier ones are replayed by the generator as it was before the task.

    Each task has fresh optimisers and draws from its own seed: a run that goes on from a file ends where one that was
    not interrupted does. In three lines with a judge::

        for name, real in tasks.items():
            judge.task(name, real), gan.learn(real)
            judge.update({task: gan.sample(k, 2000) for k, task in enumerate(judge.tasks)})

    Arguments:
        model: a name of :data:`~experiments.gans.losses.LOSSES`.
        shape: (height, width) of an image with values in [0, 1].
        tasks: how many there will be.
        device: "cpu", "cuda" or "auto"; random numbers are the CPU's in any case.
    """

    def __init__(
        self,
        model: str,
        shape: tuple[int, int],
        tasks: int,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if model not in LOSSES:
            raise ValueError(f"model={model!r} is unknown: choose one of {sorted(LOSSES)}")
        self.model, self.shape, self.tasks, self.seed = model, shape, tasks, seed
        self.settings = settings if settings is not None else Settings()
        self.loss = LOSSES[model]
        self._critic_loss, self._generator_loss = self.loss.functions(safe=self.settings.safe)
        self.learned = 0
        self._device = resolve_device(device)
        self._begin(self._seed(_WEIGHTS))

    def _begin(self, seed: int) -> None:
        """Make both networks with new weights."""
        kind, noise = self.settings.architecture, self.settings.noise
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            generator = Generator(kind, self.shape, self.tasks, noise)
            critic = Critic(kind, self.shape, self.tasks, batch_norm=not self.loss.penalty)
        self.generator, self.critic = generator.to(self._device).eval(), critic.to(self._device).eval()

    def learn(self, real: Any, progress: Progress | None = None) -> Self:
        """Learn the next task from its real images (n, height, width); calls ``progress(iteration, iterations)``.

        A training that diverges raises FloatingPointError.
        """
        if self.learned == self.tasks:
            raise ValueError(f"all {self.tasks} tasks are learned")
        new = torch.as_tensor(np.asarray(real, dtype=np.float32))
        if new.shape[1:] != self.shape or not len(new):
            raise ValueError(f"real images of shape {tuple(new.shape)}, expected (n, {self.shape[0]}, {self.shape[1]})")
        data = [*(self._replay(task, len(new)) for task in range(self.learned)), new]
        if self.settings.fresh and self.learned:
            self._begin(self._seed(_WEIGHTS, self.learned))
        draws = torch.Generator().manual_seed(self._seed(_LEARN, self.learned))
        s = self.settings
        critics, generators = (
            torch.optim.Adam(net.parameters(), lr=rate, betas=(s.beta1, 0.999), fused=True)
            for net, rate in ((self.critic, s.critic_rate), (self.generator, s.generator_rate))
        )
        self.critic.train()
        self.generator.train()
        mean = copy.deepcopy(self.generator)
        passes = s.epochs * ceil(len(data) * len(new) / s.batch)
        iterations = s.iterations or min(passes, s.most or passes)
        for iteration in range(iterations):
            with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=s.precision != "float32"):
                for _ in range(s.critic_steps):
                    self._critic_step(data, critics, draws)
                self._generator_step(len(data), generators, draws)
            if s.average:
                _follow(mean, self.generator, min(s.average, (1 + iteration) / (10 + iteration)))
            if iteration % _LOOK == 0:
                self._check_finite()
                if progress is not None:
                    progress(iteration, iterations)
        if s.average:
            self.generator.load_state_dict(mean.state_dict())
        self._check_finite()
        self.critic.eval()
        self.generator.eval()
        self.learned += 1
        return self

    def _check_finite(self) -> None:
        if not all(bool(weight.isfinite().all()) for _, net in self._nets() for weight in net.parameters()):
            raise FloatingPointError(f"{self.model}: weights are not finite at task {self.learned + 1}")

    def sample(self, task: int, n: int) -> Images:
        """Return generated images (n, height, width) of a task learned; the same each time, others after each task."""
        if not 0 <= task < self.learned:
            raise ValueError(f"task {task} is not learned yet: {self.learned} are")
        return self._generate(task, n, self._seed(_SAMPLE, self.learned, task)).numpy()

    def _replay(self, task: int, n: int) -> Tensor:
        return self._generate(task, n, self._seed(_REPLAY, self.learned, task))

    def _generate(self, task: int, n: int, seed: int) -> Tensor:
        """Draw one class a batch, in evaluation mode: batch normalisation of such a batch would remove the label."""
        z = self._noise(n, torch.Generator().manual_seed(seed))
        self.generator.eval()
        with torch.no_grad():
            parts = [
                self.generator(part, torch.full((len(part),), task, device=self._device)).cpu()
                for part in z.split(_BATCH)
            ]
        return torch.cat(parts)

    def _noise(self, n: int, draws: torch.Generator) -> Tensor:
        return (torch.rand(n, self.settings.noise, generator=draws) * 2.0 - 1.0).to(self._device)

    def _labels(self, tasks: int, draws: torch.Generator) -> Tensor:
        """Labels of a batch, as many of each task as possible; the tasks that have one more are drawn."""
        batch = self.settings.batch
        rounds = [torch.randperm(tasks, generator=draws) for _ in range(ceil(batch / tasks))]
        return torch.cat(rounds)[:batch]

    def _critic_step(self, data: list[Tensor], optimiser: torch.optim.Optimizer, draws: torch.Generator) -> None:
        labels = self._labels(len(data), draws)
        rows = (torch.rand(len(labels), generator=draws) * len(data[0])).long()  # all tasks have as many images
        real = torch.stack([data[task][row] for task, row in zip(labels.tolist(), rows.tolist(), strict=True)])
        real, labels = real.to(self._device), labels.to(self._device)
        with torch.no_grad():
            made = self.generator(self._noise(len(labels), draws), labels)
        loss = self._critic_loss(self.critic(real, labels), self.critic(made, labels))
        if self.loss.penalty:
            share = torch.rand(len(labels), generator=draws).to(self._device)
            penalty = gradient_penalty(lambda x: self.critic(x, labels), real, made, share)
            loss = loss + self.settings.penalty * penalty
        _descend(loss, optimiser)
        if self.loss.clip:
            clip_weights(self.critic, self.settings.clip)

    def _generator_step(self, tasks: int, optimiser: torch.optim.Optimizer, draws: torch.Generator) -> None:
        labels = self._labels(tasks, draws).to(self._device)
        self.critic.requires_grad_(False)  # its gradients are not needed here
        made = self.generator(self._noise(len(labels), draws), labels)
        _descend(self._generator_loss(self.critic(made, labels)), optimiser)
        self.critic.requires_grad_(True)

    def _seed(self, *purpose: int) -> int:
        return int(np.random.SeedSequence((self.seed, *purpose)).generate_state(1)[0])

    def _description(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "shape": list(self.shape),
            "tasks": self.tasks,
            "seed": self.seed,
            "settings": asdict(self.settings),
        }

    def save(self, path: Path) -> None:
        """Write both networks and how many tasks they have learned, atomically, in one safetensors file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"{part}.{k}": v.cpu().numpy() for part, net in self._nets() for k, v in net.state_dict().items()}
        write_arrays(
            path, arrays, {"format": _FORMAT, "version": _VERSION, "learned": self.learned, "gan": self._description()}
        )

    def load(self, path: Path) -> Self:
        """Go on from a file of the same model, sizes, settings and seed."""
        arrays, meta = read_arrays(path, _FORMAT, _VERSION)
        if meta["gan"] != self._description():
            raise StateFileError(f"{path} was saved with {meta['gan']}, this is {self._description()}")
        for part, net in self._nets():
            prefix = f"{part}."
            net.load_state_dict(
                {k.removeprefix(prefix): torch.from_numpy(v.copy()) for k, v in arrays.items() if k.startswith(prefix)}
            )
            net.eval()
        self.learned = int(meta["learned"])
        return self

    def _nets(self) -> tuple[tuple[str, nn.Module], ...]:
        return ("generator", self.generator), ("critic", self.critic)


@torch.no_grad()
def _follow(mean: nn.Module, net: nn.Module, stays: float) -> None:
    """Move a running mean of weights, and of what batch normalisation keeps, towards a network."""
    for ours, its in zip(mean.state_dict().values(), net.state_dict().values(), strict=True):
        if ours.is_floating_point():
            ours.lerp_(its, 1.0 - stays)
        else:
            ours.copy_(its)


def _descend(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()

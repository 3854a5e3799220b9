"""The mini-batch loop that fits networks."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from driftline.fitting._autograd import TensorObjective, as_tensor_objective
from driftline.fitting._fits import FitDivergedError, FitInfo
from driftline.fitting._objectives import Objective, constraint_residual
from driftline.fitting._settings import Progress, Training

__all__ = ["Pair", "fit_network", "row_batches", "run_epochs", "split_rows"]


class Pair(NamedTuple):
    """An original's share of a network fit: inputs of both windows, the previous psi on them, the output trained."""

    num: Tensor
    den: Tensor
    prev_num: Tensor
    prev_den: Tensor
    outputs: Callable[[Tensor], Tensor]


def split_rows(n: int, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return row numbers for training and validation, which depend on the size and seed alone.

    A window keeps its split in both of its roles, so that its sampling error cancels in networks too.
    """
    held = min(max(1, round(fraction * n)), n - 1)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[held:], order[:held]


def fit_network(
    module: nn.Module,
    pairs: Sequence[Pair],
    objective: Objective,
    training: Training,
    *,
    penalty: float = 0.0,
    seed: int = 0,
    split_seed: int = 0,
    progress: Progress | None = None,
) -> FitInfo:
    """Train ``module`` in place on the objective averaged over ``pairs``; keep the weights of the best or last epoch.

    The log-ratio of a pair is ``outputs(inputs) - previous psi``. Rows are split once into training and validation, by
    ``split_seed`` and their number alone: a window keeps its split in both of its roles. ``penalty`` is lambda_c;
    training stops early after ``patience`` epochs without improvement, but not before ``min_epochs``.
    """
    splits = [tuple(split_rows(len(rows), training.validation, split_seed) for rows in (p.num, p.den)) for p in pairs]
    largest = max(max(len(a[0]), len(b[0])) for a, b in splits)
    smallest = min(min(len(a[0]), len(b[0])) for a, b in splits)
    batches = max(1, min(smallest, round(largest / training.batch)))
    generator = torch.Generator().manual_seed(seed + 1)
    function = as_tensor_objective(objective)

    def loss_on(pair: Pair, rows_num: Tensor, rows_den: Tensor) -> Tensor:
        return _loss(pair, rows_num, rows_den, function, penalty, training.constraint == "inverse")

    def held_out() -> Tensor:
        return torch.stack([loss_on(p, s[0][1], s[1][1]) for p, s in zip(pairs, splits, strict=True)]).mean()

    def epoch_losses() -> Iterator[Tensor]:
        orders = [tuple(row_batches(side[0], batches, generator) for side in s) for s in splits]
        for b in range(batches):
            yield torch.stack([loss_on(p, o[0][b], o[1][b]) for p, o in zip(pairs, orders, strict=True)]).mean()

    advice = "take smaller steps or use objective='logistic'"
    return run_epochs(module, epoch_losses, held_out, training, batches, advice=advice, progress=progress)


def run_epochs(
    module: nn.Module,
    epoch_losses: Callable[[], Iterator[Tensor]],
    held_out: Callable[[], Tensor],
    training: Training,
    batches: int,
    *,
    advice: str,
    progress: Progress | None = None,
) -> FitInfo:
    """Minimise the losses of each epoch's batches; keep the weights of the epoch best on held-out rows, or the last.

    Arguments:
        epoch_losses: function that yields the loss of one batch after another; the module is updated in between.
        held_out: function that returns the loss on rows not trained on, called in evaluation mode without gradients.
        batches: number of batches in an epoch.
        advice: remedy that an error on a loss that is not finite names, besides a lower learning rate.
    """
    began = time.perf_counter()
    optimiser, scheduler = _optimiser(module, training, batches)
    # epoch 0 competes too: where nothing has drifted, a warm-started network is best left as it is
    best, best_state, best_epoch = _judge(module, held_out), copy.deepcopy(module.state_dict()), 0
    epoch, value, loss_value = 0, best, float("nan")
    if not math.isfinite(best):
        raise FitDivergedError(f"the objective is {best} on the held-out rows before training: are the inputs extreme?")
    for epoch in range(1, training.epochs + 1):
        loss_value = sum(_descend(loss, optimiser, scheduler) for loss in epoch_losses()) / batches
        value = _judge(module, held_out)
        if not (math.isfinite(loss_value) and math.isfinite(value)):
            raise FitDivergedError(
                f"network training diverged in epoch {epoch}: loss {loss_value}, held-out {value}; "
                f"lower the learning rate (now {training.lr:g}), {advice}"
            )
        if progress is not None:
            progress(epoch, training.epochs, loss_value, value)
        if value < best:
            best, best_state, best_epoch = value, copy.deepcopy(module.state_dict()), epoch
        elif epoch >= training.min_epochs and epoch - best_epoch >= training.patience:
            break
    if training.weights == "best":
        module.load_state_dict(best_state)
        value = best
    module.eval()
    # a best epoch among the last few of a constant-rate schedule means that the budget, not the data, ended training
    converged = training.schedule != "constant" or epoch - best_epoch >= min(training.patience, epoch)
    message = "" if converged else f"still improving after {training.epochs} epochs: raise training.epochs"
    seconds = time.perf_counter() - began
    return FitInfo("mini-batch", converged, epoch, loss_value, value, float("nan"), seconds, message)


def _judge(module: nn.Module, held_out: Callable[[], Tensor]) -> float:
    """Return the held-out loss, and leave the module ready for further training."""
    module.eval()
    with torch.no_grad():
        value = float(held_out())
    module.train()
    return value


def _loss(
    pair: Pair, rows_num: Tensor, rows_den: Tensor, objective: TensorObjective, penalty: float, inverse: bool
) -> Tensor:
    """Return the objective, plus the paper's penalty if there is one, on a batch of one pair."""
    out = pair.outputs(torch.cat([pair.num[rows_num], pair.den[rows_den]]))
    prev_num, prev_den = pair.prev_num[rows_num], pair.prev_den[rows_den]
    log_num, log_den = out[: len(rows_num)] - prev_num, out[len(rows_num) :] - prev_den
    loss = objective(log_num, log_den)
    if penalty:
        loss = loss + penalty * (constraint_residual(log_den, prev_num, prev_den, inverse=inverse) - 1.0) ** 2
    return loss


def _descend(
    loss: Tensor, optimiser: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler | None
) -> float:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    if scheduler is not None:
        scheduler.step()
    return float(loss.detach())


def row_batches(rows: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return row numbers in random order, in batches whose sizes differ by at most one."""
    return torch.tensor_split(rows[torch.randperm(len(rows), generator=generator)], count)


def _optimiser(
    module: nn.Module, training: Training, batches: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler | None]:
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if training.optimizer not in kinds:
        raise ValueError(f"optimizer={training.optimizer!r} is unknown: choose one of {sorted(kinds)}")
    kind = kinds[training.optimizer]
    decay = training.weight_decay if training.optimizer == "adamw" else 0.0
    optimiser = kind(module.parameters(), lr=training.lr, weight_decay=decay, fused=True)
    if training.schedule == "constant":
        return optimiser, None
    if training.schedule != "one-cycle":
        raise ValueError(f"schedule={training.schedule!r} is unknown: choose 'one-cycle' or 'constant'")
    return optimiser, torch.optim.lr_scheduler.OneCycleLR(optimiser, training.lr, total_steps=training.epochs * batches)

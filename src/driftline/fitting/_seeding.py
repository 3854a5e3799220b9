"""Seeds for what draws from PyTorch's global generators: initial weights of any module, dropout."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]

_LOCK = threading.RLock()  # the generators are the whole process's; a thread may nest contexts


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators inside the context, and restore them after it; threads take turns.

    >>> with seeded(0, torch.device("cpu")):
    ...     one = torch.rand(2)
    >>> with seeded(0, torch.device("cpu")):
    ...     bool((torch.rand(2) == one).all())
    True
    """
    with _LOCK, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield

"""What each gate runs, by the names of its cases; seeds begin at 2,000,000, where nobody has looked before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from benchmarks import floors, smooth
from benchmarks.streams import (
    BananaStream,
    EmbeddingStream,
    HeavyClustersStream,
    LowRankStream,
    MeansStream,
    RingStream,
    StillStream,
    ThreeWayStream,
)
from benchmarks.untidy import UNTIDY
from benchmarks.weighted import KINDS, TABLES
from driftline.synthetic import GaussianStream, MixtureStream

FIRST_SEED = 2_000_000
FRESH = 20_000
"""Rows of the current regime on which log-ratios are judged."""


@dataclass(frozen=True)
class Follow:
    """A stream that ``ContinualDensityRatio`` follows.

    Arguments:
        stream: with ``sample``, ``log_ratio`` if ``fresh``, and ``reverse_kl`` if it has a closed form.
        rows: rows of each window.
        times: when it is judged; the last one ends the stream.
        windows: times of the windows; None: all up to the last of ``times``.
        fresh: other rows that log-ratios are judged on.
    """

    stream: Any
    rows: int
    times: tuple[int, ...]
    model: str = "auto"
    keep: str = "rows"
    windows: tuple[int, ...] | None = None
    fresh: int = 0


@dataclass(frozen=True)
class Drawn:
    """Windows of a public table that ``Monitor`` watches, with what leans (of ``KINDS``) and how fast (of ``WAYS``)."""

    table: str
    kind: str
    way: str
    rows: int
    keep: str = "rows"


@dataclass(frozen=True)
class Alarms:
    """Windows of untidy rows, in which nothing moves."""

    key: str
    looks: int = 500


@dataclass(frozen=True)
class Watched:
    """The command ``driftline watch`` on a Parquet file."""


WAYS = {"slow": tuple(k / 8 for k in range(9)), "jump": (0.0, 0.0, 1.0, 1.0)}
"""Shares of the full strength, window by window; the first is the original's."""

_NEW: dict[str, tuple[Any, int, int]] = {
    "gaussian-32": (GaussianStream(dim=32), 4_000, 20),
    "low-rank-40": (LowRankStream(), 10_000, 10),
    "own-covariances": (HeavyClustersStream(dim=8, freedom=1e6, seed=12), 5_000, 20),
    "curved-pair": (BananaStream(bend=0.5**0.5, last=10, dim=8, pairs=1), 4_000, 10),
    "parity": (ThreeWayStream(top=0.86, last=10, binary=True), 4_000, 10),
    "ring": (RingStream(), 4_000, 10),
    "embedding-384": (EmbeddingStream(), 3_000, 5),
    "there-and-back": (MeansStream(), 1_000, 4),
}


def _streams(scale: str) -> dict[str, Follow]:
    named = {}
    for case in [*smooth.CASES, *smooth.FOREIGN]:
        if case.model == "auto":
            name = case.name.partition("-")[2].removesuffix("-auto").removesuffix(f"-d{case.every}")
            named[name] = case.stream, case.rows, case.times[-1]
    found = {}
    for name, (stream, rows, last) in (named | _NEW).items():
        found[name] = Follow(stream, rows, (max(last // 4, 1), last // 2, last), fresh=FRESH)
    name, rows = ("paper-10k", 10_000) if scale == "quick" else ("paper-50k", 50_000)
    found[name] = Follow(GaussianStream(), rows, tuple(range(1, 21)), fresh=FRESH)
    # fewer rows than its parameters need
    sums = {f"{name}, sums": replace(case, keep="sums") for name, case in found.items() if name != "embedding-384"}
    return found | sums


def _real(scale: str) -> dict[str, Drawn]:
    every = [
        Drawn(table, kind, way, rows, keep)
        for rows, ways, keep, kinds in (
            (3_000, ("slow", "jump"), "rows", KINDS),
            (3_000, ("slow",), "sums", KINDS),
            (1_500, ("slow",) if scale == "quick" else tuple(WAYS), "rows", KINDS),
            (10_000, ("slow",) if scale == "quick" else tuple(WAYS), "rows", KINDS[:2] if scale == "quick" else KINDS),
        )
        for way in ways
        for table, public in TABLES.items()
        for kind in public.kinds()
        if kind in kinds
    ]
    every.sort(key=lambda case: (case.table, case.rows, case.kind))  # a population is made once
    return {f"{d.table}, {d.kind}, {d.way}, {d.rows}{', sums' * (d.keep == 'sums')}": d for d in every}


def _coverage(scale: str) -> dict[str, Follow]:
    gaussian, times = GaussianStream(dim=5), (1, 5, 20)
    return {
        "gaussian-5, quadratic": Follow(gaussian, 2_000, times, "quadratic"),
        "gaussian-5": Follow(gaussian, 2_000, times),
        "gaussian-5, sums": Follow(gaussian, 2_000, times, keep="sums"),
        "gaussian-5, AR(1) .6": Follow(GaussianStream(dim=5, rho=0.6), 2_000, times),
        "mixture-5": Follow(MixtureStream(dim=5), 2_000, times),
    }


def _auditor(scale: str) -> dict[str, Follow]:
    gaussian = GaussianStream(dim=5)
    still = {"still": StillStream(gaussian), "gaussian": gaussian, "mixture": MixtureStream(dim=5)}
    silent = {f"{name}-5": Follow(stream, 2_000, (20,)) for name, stream in still.items()}
    # 0.1 nats: bent by 0.4 · 12 / 20
    return silent | {"banana, quadratic": Follow(BananaStream(), 4_000, (12,), "quadratic")}


def _floors(scale: str) -> dict[str, Follow]:
    # a coarse model will do: floors do not depend on it
    return {name: Follow(s, floors.ROWS, (5, 20), "linear", windows=(1, 5, 20)) for name, s in floors.CASES.items()}


def _runs(scale: str) -> dict[str, Alarms]:
    return {case.key: Alarms(case.key) for case in UNTIDY}


def _cost(scale: str) -> dict[str, Any]:
    return {
        "step, 50,000 x 20": Follow(GaussianStream(dim=20), 50_000, (3,)),
        "step, 50,000 x 64": Follow(GaussianStream(), 50_000, (3,)),
        "step, low-rank-40": Follow(LowRankStream(), 10_000, (10,)),
        "step, mixture-64": Follow(MixtureStream(), 10_000, (20,)),
        "state, 8 columns": Follow(GaussianStream(dim=8), 5_000, (10,)),
        "state, 40 columns": Follow(LowRankStream(), 5_000, (3,)),
        "watch, 300,000 x 20": Watched(),
    }


class Gate(NamedTuple):
    """Cases by scale, and how many seeds quick and full runs take; of costs, rounds."""

    cases: Callable[[str], dict[str, Any]]
    seeds: dict[str, int]


GATES = {
    "streams": Gate(_streams, {"quick": 2, "full": 20}),
    "real": Gate(_real, {"quick": 1, "full": 8}),
    "coverage": Gate(_coverage, {"quick": 60, "full": 200}),
    "auditor": Gate(_auditor, {"quick": 100, "full": 200}),
    "floors": Gate(_floors, {"quick": 60, "full": 200}),
    "runs": Gate(_runs, {"quick": 3, "full": 10}),
    "cost": Gate(_cost, {"quick": 5, "full": 11}),
}


def case_of(gate: str, name: str) -> Any:
    """Return a case of any scale by its name."""
    return {**GATES[gate].cases("full"), **GATES[gate].cases("quick")}[name]

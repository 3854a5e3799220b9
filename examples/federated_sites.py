"""Watch the drift of rows that must not leave where they are: four clinics, each a process of its own.

Every clinic holds its own patients' measurements, week by week. No row leaves its process: the coordinator sends
questions as bytes through a pipe, and clinics answer with sums. What comes out is what all rows in one place would have
given. In the third week one clinic is offline; the step is taken without it, and says so.

    python examples/federated_sites.py --weeks 5

Bytes may travel any other way: a way to a site is a function from a question to its answer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from driftline import Estimate, UntrustedEstimateWarning
from driftline.federated import Coordinator, Site

CLINICS = {"north": 700, "east": 1100, "south": 1900, "west": 2600}
COLUMNS = ["pressure", "glucose", "weight"]
OFFLINE = 3  # the week in which the last clinic is not there


def measurements(name: str, week: int, seed: int) -> npt.NDArray[np.float64]:
    """Return a clinic's rows of a week: glucose rises a little everywhere, each clinic has its own level."""
    rng = np.random.default_rng([seed, week, list(CLINICS).index(name)])
    level = 0.2 * list(CLINICS).index(name)
    return rng.normal([level, level + 0.06 * week, level], 1.0, (CLINICS[name], len(COLUMNS)))


def serve(name: str, seed: int, line: Connection) -> None:
    """Answer questions about a clinic's rows until the line is closed; the rows are in this process alone."""
    week, site = -1, None
    while True:
        try:
            asked_week, question = line.recv_bytes(), line.recv_bytes()
        except EOFError:
            return
        if site is None or week != int(asked_week):
            week = int(asked_week)
            site = Site(measurements(name, week, seed), name)
        line.send_bytes(site.answer(question))


def ask(line: Connection, week: int, question: bytes) -> bytes:
    """Send a question through a pipe, and wait for the answer."""
    line.send_bytes(str(week).encode())
    line.send_bytes(question)
    return line.recv_bytes()


def offline(question: bytes) -> bytes:
    """Stand for a clinic that cannot be reached."""
    raise ConnectionError("offline")


def main(arguments: Sequence[str] | None = None) -> list[Estimate]:
    """Follow the clinics; return the drift since the first week, week by week."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    context, lines, processes = multiprocessing.get_context("spawn"), {}, []
    for name in CLINICS:
        lines[name], there = context.Pipe()
        processes.append(context.Process(target=serve, args=(name, chosen.seed, there), daemon=True))
        processes[-1].start()
        there.close()
    run, found = Coordinator(COLUMNS, on_failure="drop", timeout=60.0), []
    for week in range(chosen.weeks + 1):
        ways: dict[str, Callable[[bytes], bytes]] = {name: partial(ask, line, week) for name, line in lines.items()}
        if week == OFFLINE:
            ways["west"] = offline
        with warnings.catch_warnings():  # doubts are printed below
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            if week == 0:
                run.begin(ways)
                continue
            run.step(ways)
            found.append(run.estimator.divergence())
        print(f"week {week}, {run.rounds} rounds: {found[-1]} nats")
        for doubt in found[-1].doubts:
            print(f"    {doubt}")
    for line in lines.values():
        line.close()
    for process in processes:
        process.join(10)
    return found


if __name__ == "__main__":
    main()

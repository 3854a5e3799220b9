"""Run lengths and delays of alibi-detect's online detectors: ``python -m benchmarks.alibi_online --out FILE``.

It needs an environment with alibi-detect 0.13 (which brings numba) and torch; driftline is not needed.

Properties of LSDDDriftOnline and MMDDriftOnline (backend pytorch) that matter here:

- ``ert`` counts rows from t=0, each row being one look at the sliding window of the last ``window_size`` rows.
- The window is not filled first: it starts as ``window_size`` rows of the reference, which newer rows push out one by
  one. ``reset_state`` puts the same reference rows back; thresholds stay. The first look is at the first row.
- Thresholds come from permutations of the reference, as if rows were exchangeable. 2 W - 1 of its rows serve only
  this (W = window_size), and LSDD takes 2 W more as kernel centers: of 2500 rows MMD compares with 1501, LSDD with 501.
- ``n_bootstraps`` must exceed ``ert`` (a ValueError otherwise: the default 1000 promises fewer than 1000 rows) and
  "should ideally be at least an order of magnitude larger"; here it is ``BOOTSTRAPS`` times ``ert``.

At W = 500 and `ert` 10,000 its own search for thresholds would take 8 hours (MMD) to a day (LSDD, and 80 GB) for each
detector. So only `_configure_thresholds` is replaced: the same statistics of the same permutations, from sums that roll
along with the window, in 10 s. ``--check`` compares them with alibi-detect's own at a size where these can be run.
Everything else, above all each row's statistic, is alibi-detect's own; every run draws a new reference and configures
its detector anew.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from alibi_detect.cd.pytorch.lsdd_online import LSDDDriftOnlineTorch
from alibi_detect.cd.pytorch.mmd_online import MMDDriftOnlineTorch
from alibi_detect.utils.pytorch import GaussianRBF, quantile
from numpy.typing import NDArray

from benchmarks.scenarios import RUN_LENGTH, SCENARIOS, Scenario

BOOTSTRAPS = 2
"""Bootstraps per row of ert."""
LIMIT = 3
"""Watch for at most this many promised run lengths (after the change, where there is one)."""

Array = NDArray[Any]


@numba.njit(fastmath=True)
def _sums(kernel: Array, chosen: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Compute the sums in every statistic, of a symmetric float32 matrix, for each permutation (a row of `chosen`).

    The sums are over pairs within each test window (size, permutations), over test window times sub-reference (the same
    shape), over pairs of the extended test window (permutations,) and over extended test window times sub-reference
    (the same shape). Permutations are processed in blocks, so that a row of the matrix is read once for all of them.
    """
    block = 64
    count, length = chosen.shape
    windows, cross = np.empty((size, count)), np.empty((size, count))
    tests, crossed = np.zeros(count), np.zeros(count)
    columns = np.array([row.astype(np.float64).sum() for row in kernel])
    places = np.empty((len(kernel), block), np.int16)
    # sums of one place with the others: up to size - 1 later, up to size - 1 earlier, farther away
    after = np.empty((block, length), np.float32)
    before, beyond = np.empty_like(after), np.empty_like(after)
    outside = np.empty(length)
    for start in range(0, count, block):
        some = min(block, count - start)
        places[:] = -1
        before[:] = 0.0
        beyond[:] = 0.0
        for b in range(some):
            for i in range(length):
                places[chosen[start + b, i], b] = i
        for r in range(len(kernel)):
            row = kernel[r]
            for b in range(some):
                i = places[r, b]
                if i < 0:
                    continue
                end = min(i + size, length)
                near, sums, total = chosen[start + b, i + 1 : end], before[b, i + 1 : end], np.float32(0.0)
                for j in range(len(near)):
                    value = row[near[j]]
                    total += value
                    sums[j] += value
                after[b, i] = total
                far, sums, total = chosen[start + b, end:], beyond[b, end:], np.float32(0.0)
                for j in range(len(far)):
                    value = row[far[j]]
                    total += value
                    sums[j] += value
                beyond[b, i] += total
        for b in range(some):
            to, inner, outer = start + b, 0.0, 0.0
            for i in range(length):
                y = chosen[to, i]
                within = kernel[y, y] + np.float64(after[b, i]) + np.float64(before[b, i]) + np.float64(beyond[b, i])
                outside[i] = columns[y] - within
                tests[to] += within
                crossed[to] += outside[i]
                inner += kernel[y, y] + 2.0 * np.float64(before[b, i])
                outer += outside[i]
                gone = i - size
                if gone >= 0:
                    left = chosen[to, gone]
                    inner -= kernel[left, left] + 2.0 * np.float64(after[b, gone])
                    outer -= outside[gone]
                if gone >= -1:
                    windows[gone + 1, to], cross[gone + 1, to] = inner, outer
    return windows, cross, tests, crossed


def _thresholds(statistics: Array, rate: float, kept: int) -> list[float]:
    """Return each window's quantile among permutations not beyond it before; the first `kept` windows drop none."""
    thresholds, left = [], np.arange(statistics.shape[1])
    for w, row in enumerate(statistics):
        values = row[left].astype(np.float32)
        thresholds.append(quantile(torch.from_numpy(np.sort(values)), 1 - rate, sorted=True))
        if w >= kept:
            left = left[values < thresholds[-1]]
    return thresholds


class MMD(MMDDriftOnlineTorch):
    """MMDDriftOnline with its thresholds from rolling sums."""

    def _configure_thresholds(self) -> None:
        size, tests = self.window_size, 2 * self.window_size - 1
        ref = self.n - tests
        perms = [torch.randperm(self.n) for _ in range(self.n_bootstraps)]
        chosen = np.stack([perm[-tests:].numpy().astype(np.uint16) for perm in perms])
        # constants cancel, and small numbers lose less in float32
        kernel = self.k_xx.numpy() - self.k_xx.numpy().mean()
        np.fill_diagonal(kernel, 0.0)
        windows, cross, inner, outer = _sums(kernel, chosen, size)
        within = (kernel.sum(dtype=np.float64) - inner - 2.0 * outer) / (ref * (ref - 1))
        mmds = within + windows / (size * (size - 1)) - 2.0 * cross / (ref * size)
        self.thresholds = _thresholds(mmds, self.fpr, kept=0)


class LSDD(LSDDDriftOnlineTorch):
    """LSDDDriftOnline with its thresholds from rolling sums."""

    def _configure_thresholds(self) -> None:
        size, tests, count = self.window_size, 2 * self.window_size - 1, self.n - self.n_kernel_centers
        ref = count - tests
        perms = [torch.randperm(count) for _ in range(self.n_bootstraps)]
        chosen = np.stack([perm[ref:].numpy().astype(np.uint16) for perm in perms])
        H = GaussianRBF(np.sqrt(2.0) * self.kernel.sigma)(self.kernel_centers, self.kernel_centers)
        similarities = self.k_xc - self.k_xc.mean(0)  # h is a difference of means: constants cancel
        inverse = torch.inverse(H + torch.eye(len(H)) * self._regularization(H, similarities, chosen))
        self.H_lam_inv = 2 * inverse - inverse.T @ H @ inverse  # below Eqn 11 of Bu et al. (2017)
        kernel = (similarities.double() @ self.H_lam_inv.double() @ similarities.double().T).float().numpy()
        windows, cross, inner, outer = _sums((kernel + kernel.T) / np.float32(2.0), chosen, size)
        within = (kernel.sum(dtype=np.float64) - inner - 2.0 * outer) / ref**2
        lsdds = within + windows / size**2 - 2.0 * cross / (ref * size)
        self.thresholds = _thresholds(lsdds, self.fpr, kept=1)

    def _regularization(self, H: torch.Tensor, similarities: torch.Tensor, chosen: Array) -> float:
        """Return the largest of its ten lambdas whose relative difference is in bounds on the first windows."""
        candidates = 0.25 ** torch.arange(10, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(H.double())
        spectrum = values[:, None] + candidates
        rotated = similarities @ vectors.to(similarities.dtype)
        ref, differences = len(similarities) - chosen.shape[1], []
        for some in np.array_split(chosen.astype(np.int64), math.ceil(len(chosen) / 2000)):
            weights = np.zeros((len(some), len(similarities)), np.float32)
            np.put_along_axis(weights, some, -1.0 / ref, 1)
            np.put_along_axis(weights, some[:, : self.window_size], -1.0 / ref - 1.0 / self.window_size, 1)
            squares = (torch.from_numpy(weights) @ rotated).square()
            h_omega = squares @ (1.0 / spectrum).float()
            differences.append(1.0 - squares @ (values[:, None] / spectrum**2).float() / h_omega)
        fine = (torch.cat(differences).mean(0) < self.lambda_rd_max).nonzero()
        return float(candidates[fine[0, 0]])


DETECTORS: dict[str, Any] = {"lsdd": LSDD, "mmd": MMD}


@lru_cache(maxsize=1)
def _configured(name: str, scenario: Scenario, seed: int) -> tuple[Any, float]:
    """Return a detector configured on the scenario's reference, and the seconds this took."""
    torch.manual_seed(seed)
    reference, _ = scenario.stream(seed)
    ert, began = RUN_LENGTH * scenario.rows, time.perf_counter()
    detector = DETECTORS[name](
        reference.astype(np.float32), ert, scenario.rows, n_bootstraps=BOOTSTRAPS * ert, device="cpu", verbose=False
    )
    return detector, time.perf_counter() - began


def run(name: str, scenario: Scenario, seed: int) -> dict[str, Any]:
    """Feed one stream row by row until the first alarm or the limit."""
    # "clean" and "shift" have the same reference, hence the same detector: configured once, reset in between
    unchanged = replace(scenario, name="", shift=0.0, columns=0, change=0)
    detector, configuring = _configured(name, unchanged, seed)
    detector.reset_state()
    _, windows = scenario.stream(seed)
    limit = (scenario.change + LIMIT * RUN_LENGTH) * scenario.rows
    rows, alarm, began = 0, False, time.perf_counter()
    while rows < limit and not alarm:
        for row in next(windows).astype(np.float32):
            rows += 1
            if detector.predict(row, return_test_stat=False)["data"]["is_drift"]:
                alarm = True
                break
    seconds = time.perf_counter() - began
    return {
        "detector": name,
        "scenario": scenario.name,
        "seed": seed,
        "rows": rows,
        "alarm": alarm,
        "configuring_seconds": round(configuring, 3),
        "milliseconds_per_row": round(1e3 * seconds / rows, 4),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Summarize each detector and scenario: run length over the promise, or the delay after the change."""
    out: dict[str, dict[str, Any]] = {}
    for name in DETECTORS:
        for scenario in SCENARIOS.values():
            same = [r for r in runs if (r["detector"], r["scenario"]) == (name, scenario.name)]
            if same:
                line = _delays(same, scenario) if scenario.shift else _run_lengths(same, scenario)
                line["configuring_seconds"] = float(np.mean([r["configuring_seconds"] for r in same]))
                line["milliseconds_per_row"] = float(np.median([r["milliseconds_per_row"] for r in same]))
                out[f"{name} {scenario.name}"] = {"runs": len(same), **line}
    return out


def _run_lengths(runs: list[dict[str, Any]], scenario: Scenario) -> dict[str, Any]:
    """Estimate run lengths as rows watched / alarms, the exponential law for censored runs; 95% interval by resampling.

    Runs are resampled since rates differ between references: the exponential law's own interval would be too narrow.
    """
    rows, alarms = np.array([r["rows"] for r in runs]), np.array([r["alarm"] for r in runs])
    again = np.random.default_rng(0).integers(len(runs), size=(10_000, len(runs)))
    promise = RUN_LENGTH * scenario.rows
    means = rows[again].sum(1) / np.maximum(alarms[again].sum(1), 1) / promise
    return {
        "censored": int((~alarms).sum()),
        "mean_rows": float(rows.sum() / max(alarms.sum(), 1)),
        "over_promise": float(rows.sum() / max(alarms.sum(), 1) / promise),
        "interval": np.quantile(means, [0.025, 0.975]).tolist(),
        "median_rows": float(np.median(rows)),
    }


def _delays(runs: list[dict[str, Any]], scenario: Scenario) -> dict[str, Any]:
    """Measure rows and windows (rounded up) from the change to the alarm, among runs without an alarm before it."""
    changed = scenario.change * scenario.rows
    rows = np.array([r["rows"] - changed for r in runs if r["alarm"] and r["rows"] > changed])
    line: dict[str, Any] = {
        "alarms_before": sum(r["alarm"] and r["rows"] <= changed for r in runs),
        "missed": sum(not r["alarm"] for r in runs),
    }
    if len(rows):
        windows = np.ceil(rows / scenario.rows)
        line |= {"mean_delay_rows": float(rows.mean()), "median_delay_rows": float(np.median(rows))}
        line |= {"mean_delay_windows": float(windows.mean()), "median_delay_windows": float(np.median(windows))}
    return line


def check() -> None:
    """Compare thresholds from rolling sums with alibi-detect's own, on the same permutations, where those are quick."""
    for dim in (5, 64):
        rows = np.random.default_rng(dim).standard_normal((400, dim)).astype(np.float32)
        for quick in DETECTORS.values():
            both = []
            for cls in (quick, quick.__base__):
                torch.manual_seed(0)
                began = time.perf_counter()
                detector = cls(rows, 200, 40, n_bootstraps=1000, device="cpu", verbose=False)
                both.append(np.array(detector.thresholds))
                print(f"{cls.__name__}, {dim} columns: {time.perf_counter() - began:.2f} s", file=sys.stderr)
            np.testing.assert_allclose(both[0], both[1], rtol=1e-3)
            print(f"largest relative difference: {np.abs(both[0] / both[1] - 1.0).max():.1e}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alibi_online", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="JSON; runs already in it are kept and not repeated")
    parser.add_argument("--runs", type=int, default=20, help="streams per scenario, 2 minutes each")
    parser.add_argument("--check", action="store_true", help="compare thresholds with alibi-detect's own, and stop")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        return check()
    if args.out is None:
        parser.error("--out is required")
    settings = {
        "run_length_windows": RUN_LENGTH,
        "bootstraps_per_ert": BOOTSTRAPS,
        "limit_promises": LIMIT,
        "scenarios": [repr(scenario) for scenario in SCENARIOS.values()],
    }
    results: dict[str, Any] = {"settings": settings, "runs": []}
    if args.out.exists():
        results = json.loads(args.out.read_text())
        if results["settings"] != settings:
            parser.error(f"{args.out} was written with other settings: remove it, or name another file")
    done = {(r["detector"], r["scenario"], r["seed"]) for r in results["runs"]}
    plan = [(name, scenario, seed) for seed in range(args.runs) for name in DETECTORS for scenario in SCENARIOS]
    for count, (name, scenario, seed) in enumerate(plan, 1):
        if (name, scenario, seed) in done:
            continue
        results["runs"].append(run(name, SCENARIOS[scenario], seed))
        _write(results, args.out)
        print(f"{count}/{len(plan)} {results['runs'][-1]}", file=sys.stderr, flush=True)
    _write(results, args.out)
    print(json.dumps(results["summary"], indent=1))


def _write(results: dict[str, Any], path: Path) -> None:
    """Write results with a fresh summary, as a whole or not at all."""
    results["summary"] = summary(results["runs"])
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1))
    os.replace(temporary, path)


if __name__ == "__main__":
    main()

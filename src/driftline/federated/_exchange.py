"""Rounds: a question to all sites at once, their answers joined, and what is to be done if one fails."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np

from driftline._inputs import Floats
from driftline.federated._messages import MessageError, merge, read_answer, write_question
from driftline.recursion import Answer, Question

__all__ = ["Exchange", "Round", "SiteError", "Transport"]

Transport = Callable[[bytes], bytes]
"""The way to a site: a question out, its answer back."""
Round = Callable[[bytes], Mapping[str, bytes | str]]
"""The way to all sites at once: a question out, answers by site back; text says why there is none."""


_OFF = 1e-6  # relative difference of sums that should be the same


class SiteError(RuntimeError):
    """Error raised if a site fails in a round.

    Attributes:
        site: name of the site.
        share: its share of the rows, nan if it is not known.
        reason: what went wrong.
    """

    def __init__(self, site: str, share: float, reason: str) -> None:
        known = f", which has {share:.0%} of the rows," if share == share else ""
        super().__init__(f"site {site!r}{known} has failed: {reason}")
        self.site, self.share, self.reason = site, share, reason


class Exchange:
    """Rounds of one step with the same sites, in which each of them must count the same rows throughout.

    Arguments:
        sites: ways to the sites by name, or one way to all of them.
        columns: number of columns.
        names: their names, if they have any.
        timeout: seconds that a round may take; None for as long as it takes.
    """

    def __init__(
        self,
        sites: Mapping[str, Transport] | Round,
        columns: int,
        names: tuple[str, ...] | None = None,
        timeout: float | None = None,
    ) -> None:
        self._sites, self._columns, self._names, self._timeout = sites, columns, names, timeout
        self.rounds = 0
        self.rows: dict[str, int] = {}
        self._pulls: dict[tuple[bytes, bytes], dict[str, Floats]] = {}  # gradients by theta and c, and by site

    def share(self, site: str) -> float:
        """Return a site's share of the rows, nan before it has answered."""
        total = sum(self.rows.values())
        return self.rows[site] / total if site in self.rows else float("nan")

    def __call__(self, question: Question) -> Answer:
        """Ask all sites, and join their answers; raise :class:`SiteError` if one of them fails."""
        self.rounds += 1
        data = write_question(question, self.rounds, self._columns, self._names)
        found, failed = self._at_once(data) if callable(self._sites) else self._asked(data, self._sites)
        rows = {}
        for site, answer in found.items():
            try:
                rows[site] = self._read(question, data, site, answer)
            except MessageError as error:
                failed[site] = str(error)
        self.rows = {**self.rows, **rows}
        if failed:
            site = min(failed)
            raise SiteError(site, self.share(site), failed[site])
        return merge(data, found)

    def _read(self, question: Question, data: bytes, site: str, answer: bytes) -> int:
        """Return the rows of a site that has answered, if the answer fits to those of earlier rounds."""
        found = read_answer(answer, data, site)
        if self.rows.get(site, found.rows) != found.rows:
            raise MessageError(f"it counted {self.rows[site]} rows before, and {found.rows} now")
        if question.kind not in ("slope", "scores"):
            return found.rows
        known = self._pulls.setdefault((question.given["coef"].tobytes(), question.given["c"].tobytes()), {})
        pull = found["pull"] if question.kind == "slope" else found["plain"][-1]
        if np.abs(known.get(site, pull) - pull).max() > _OFF * (1.0 + np.abs(pull).max()):
            raise MessageError(
                "its gradients of two rounds contradict each other: rows have changed, or sums are wrong"
            )
        known[site] = pull
        return found.rows

    def _at_once(self, question: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the answers of all sites, and those that have answered before and do not now."""
        assert callable(self._sites)
        answers = self._sites(question)
        if not answers:
            raise ValueError("no site has answered: there are no rows")
        gone = set(self.rows) ^ set(answers) if self.rows else set()
        failed = dict.fromkeys(gone, "it has not answered in all rounds")
        failed |= {site: reason for site, reason in answers.items() if isinstance(reason, str)}
        return {site: answer for site, answer in answers.items() if not isinstance(answer, str)}, failed

    def _asked(self, question: bytes, sites: Mapping[str, Transport]) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return answers and failures by site; sites that have not answered in time have failed."""
        done: queue.Queue[tuple[str, bytes | str]] = queue.Queue()

        def ask(site: str, way: Transport) -> None:
            try:
                answer = way(question)
                done.put((site, answer if isinstance(answer, bytes) else f"not bytes, but {type(answer).__name__}"))
            except BaseException as error:  # whatever went wrong on the way, the step must know
                done.put((site, f"{type(error).__name__}: {error}"))

        for site, way in sites.items():
            threading.Thread(target=ask, args=(site, way), daemon=True).start()
        found: dict[str, bytes] = {}
        failed = dict.fromkeys(sites, f"no answer within {self._timeout} seconds")
        end = None if self._timeout is None else time.monotonic() + self._timeout
        for _ in sites:
            try:
                site, answer = done.get(timeout=None if end is None else max(end - time.monotonic(), 0.0))
            except queue.Empty:
                break
            failed.pop(site)
            if isinstance(answer, str):
                failed[site] = answer
            else:
                found[site] = answer
        return found, failed

"""The coordinator: asks sites for sums, and makes of them the state that the ordinary estimator continues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

from driftline._overflow import quiet_overflow
from driftline._threads import limited_threads
from driftline.estimators import ContinualDensityRatio, dump_estimator, parse_estimator, warn_of
from driftline.federated._exchange import Exchange, Round, SiteError, Transport
from driftline.federated._site import Site
from driftline.fitting import LogLinear
from driftline.inference import Doubt, DoubtCode
from driftline.recursion import (
    Answer,
    Info,
    Question,
    State,
    StepSettings,
    Track,
    begin_anew,
    least_rows,
    parameters_of,
    pooled_size,
    start_pooled,
    step_pooled,
)

__all__ = ["Coordinator"]

_NAME = "original"
_Made = TypeVar("_Made")


class Coordinator:
    """Traces an original whose rows, and those of every window, lie at several sites and stay there.

    Its state is that of ``ContinualDensityRatio(keep="sums")``: ask :attr:`estimator` for divergences, log-ratios and
    weights, save it, or go on with it in one place. A step is taken from the answers of all sites, or not at all.

    Arguments:
        columns: names of the columns, or their number.
        model: "linear", "quadratic" or "quadratic-full", with 100 parameters at most; "auto" learns from rows, so its
            dictionary is fixed beforehand: go on from an estimator, :meth:`of`.
        ridge, lag: as in :class:`~driftline.ContinualDensityRatio`; ``lag`` is "auto" or 0.
        on_failure: what happens if a site fails: "stop" raises :class:`SiteError` and leaves the state as it was;
            "drop" takes the step again without the site, and says so in a doubt (``site_missing``).
        timeout: seconds that a site may take for an answer; None for as long as it takes.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def sites(shift):
    ...     return [Site(rng.normal(shift, 1.0, (n, 2)), name) for name, n in (("north", 1500), ("south", 2500))]
    >>> run = Coordinator(columns=2, model="linear").begin(sites(0.0)).step(sites(0.2))
    >>> found = run.estimator.divergence()  # the truth is 0.04
    >>> bool(abs(found.value - 0.04) < 3 * found.std_error), run.rounds
    (True, 7)
    """

    def __init__(
        self,
        columns: int | Sequence[str],
        model: str = "quadratic",
        *,
        ridge: float = 1.0,
        lag: int | str = "auto",
        on_failure: str = "stop",
        timeout: float | None = None,
    ) -> None:
        names = None if isinstance(columns, int) else tuple(columns)
        width = columns if isinstance(columns, int) else len(columns)
        if width < 1 or (names is not None and not all(isinstance(name, str) for name in names)):
            raise ValueError(f"columns={columns!r} must be a number of columns, or their names")
        if on_failure not in ("stop", "drop"):
            raise ValueError(f"on_failure={on_failure!r} is unknown: choose 'stop' or 'drop'")
        if lag not in ("auto", 0) or isinstance(lag, bool):
            raise ValueError(f"lag={lag!r} is not known from sums: choose 'auto' or 0")
        if not ridge >= 0:
            raise ValueError(f"ridge={ridge!r} must be a number of at least 0")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout={timeout!r} must be a number of seconds above 0")
        if model != "auto":
            parameters_of(model, width)
        self.on_failure, self.timeout = on_failure, timeout
        self.rounds = 0
        self.info: Info | None = None
        self._width, self._names = width, names
        self._params = {"model": model, "keep": "sums", "ridge": float(ridge), "lag": lag, "random_state": 0}
        self._settings = StepSettings(
            model=model, ridge=float(ridge), lag=None if lag == "auto" else 0, names=names, keep="sums"
        )
        self._state: State | None = None
        self._shares: dict[str, float] = {}
        self._answered: frozenset[str] = frozenset()  # sites of the window before; in memory alone, empty if not known

    @classmethod
    def of(cls, estimator: ContinualDensityRatio, *, on_failure: str = "stop", timeout: float | None = None) -> Self:
        """Go on from an estimator with ``keep="sums"`` and one original.

        With ``model="auto"``, features stay those that it has. Its original may have been a sample, to fix them on:
        :meth:`begin` then begins with all rows of the original, in these features.
        """
        stored = parse_estimator(estimator.to_bytes(), "ContinualDensityRatio", "the estimator")
        params, [(name, track)] = stored.params, stored.state.tracks.items()
        if params["keep"] != "sums" or name != _NAME:
            raise ValueError(
                f"keep={params['keep']!r} of {name!r}: a coordinator goes on from keep='sums' of {_NAME!r}"
            )
        width = track.current.window.shape[1]
        kept = {name: params[name] for name in ("model", "ridge", "lag")}
        found = cls(stored.columns or width, **kept, on_failure=on_failure, timeout=timeout)
        pooled_size(track.current, found._settings)
        found._state = stored.state
        return found

    @property
    def begun(self) -> bool:
        """Whether an original is traced."""
        return self._state is not None

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self._width

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, if they are known."""
        return self._names

    @property
    def least_rows(self) -> int:
        """Number of rows that a site needs, at least, for its sums not to reveal them."""
        if self._settings.model != "auto":
            return least_rows(parameters_of(str(self._settings.model), self._width), self._width)
        current = self._fixed().current
        assert isinstance(current.psi, LogLinear)
        assert current.sums is not None
        features = current.psi.features
        learned = sum(other.size for other in features.others)
        return least_rows(features.size + 1, self._width, learned, len(current.sums.candidates.mean))

    @property
    def estimator(self) -> ContinualDensityRatio:
        """An estimator at the present step, with all that can be asked of it."""
        data = dump_estimator(self._begun(), "ContinualDensityRatio", self._params, 0, self._names)
        return ContinualDensityRatio.from_bytes(data, what="the coordinator's state")

    def begin(self, sites: Iterable[Site] | Mapping[str, Transport] | Round) -> Self:
        """Begin to trace an original of which each site holds some rows.

        Sites are given one by one, as ways to them by name, or as one way to all: a function from the bytes of a
        question to those of all answers by site, with text where there is none.

        A site that fails stops it, whatever ``on_failure`` is: without the site it would be another original.

        With ``model="auto"``, the dictionary is that of the estimator that the coordinator goes on from.
        """
        given = self._fixed() if self._settings.model == "auto" else None
        ask = Exchange(_ways(sites), self._width, self._names, self.timeout)
        if given is None:
            track = self._made(ask, lambda: start_pooled(ask, self._width, self._settings, 0))
        else:
            track = self._made(ask, lambda: begin_anew(ask, given, self._settings, 0))
        self._state, self.info = State({_NAME: track}, 0), None
        self._answered = frozenset(ask.rows)
        return self

    def step(self, sites: Iterable[Site] | Mapping[str, Transport] | Round) -> Self:
        """Advance to a window of which each site holds some rows; after an error the state is as it was."""
        state, ways, missing = self._begun(), _ways(sites), list[Doubt]()
        track, t = state.tracks[_NAME], state.t + 1
        before = [doubt for doubt in track.doubts if doubt.code == DoubtCode.SITE_MISSING and doubt.concerns]
        while True:
            ask, further = Exchange(ways, self._width, self._names, self.timeout), list[Doubt]()
            told = partial(self._told, ask, further, missing, before)

            try:
                names = () if callable(ways) else sorted(ways)
                now, info = self._made(ask, partial(step_pooled, track, told, self._settings, t, further, names))
            except SiteError as error:
                if self.on_failure == "stop" or callable(ways) or len(ways) == 1:
                    raise
                ways = {site: way for site, way in ways.items() if site != error.site}
                missing = [*missing, _missing(error)]
                continue
            warn_of(info.doubts)  # before the state changes: warnings may be raised as errors
            self._state, self.info = State({_NAME: now}, t), Info(t, {_NAME: info})
            self._answered = frozenset(ask.rows)
            return self

    def _told(
        self, ask: Exchange, further: list[Doubt], missing: list[Doubt], before: list[Doubt], question: Question
    ) -> Answer:
        """Ask, and set the further doubts of the step: only then it is known who has answered."""
        answer = ask(question)
        further[:] = [*missing, *_changed(self._answered, frozenset(ask.rows), missing, before)]
        return answer

    @limited_threads()
    @quiet_overflow()
    def _made(self, ask: Exchange, make: Callable[[], _Made]) -> _Made:
        """Return what is made of answers; a site that has not answered at all is given the share it had before."""
        try:
            found = make()
        except SiteError as error:
            share = self._shares.get(error.site, error.share) if math.isnan(error.share) else error.share
            raise SiteError(error.site, share, error.reason) from None
        self.rounds, self._shares = ask.rounds, {site: ask.share(site) for site in ask.rows}
        return found

    def _fixed(self) -> Track:
        """Return the track whose features a model that learns from rows has."""
        if self._state is None:
            raise ValueError(
                "model='auto' learns its features from rows, and these stay at the sites: fit ContinualDensityRatio("
                "model='auto', keep='sums') on a first window, or on a sample of it, in one place, and go on with "
                "Coordinator.of(estimator)"
            )
        return self._state.tracks[_NAME]

    def _begun(self) -> State:
        if self._state is None:
            raise ValueError("nothing is traced yet: call begin with the sites of the original first")
        return self._state


def _ways(sites: Iterable[Site] | Mapping[str, Transport] | Round) -> dict[str, Transport] | Round:
    """Return the ways to sites by name, or the way to all of them."""
    if callable(sites):
        return sites
    if isinstance(sites, Mapping):
        ways = dict(sites)
    else:
        found = list(sites)
        ways = {site.name: site.answer for site in found}
        if len(ways) < len(found):
            raise ValueError(f"two sites have the same name: {sorted(site.name for site in found)}")
    if not ways:
        raise ValueError("no site is given: pass at least one")
    return ways


def _missing(error: SiteError) -> Doubt:
    """Return the doubt that a site is missing in a window."""
    share = "an unknown share" if math.isnan(error.share) else f"{error.share:.0%}"
    sentence = (
        f"site {error.site!r}, {share} of the rows, is missing in this window ({error.reason}): where it differs from "
        "the others, that reads as drift; take the step again with it, or compare windows of the same sites"
    )
    return Doubt(DoubtCode.SITE_MISSING, sentence, (error.site,))


def _changed(
    last: frozenset[str], now: frozenset[str], missing: Sequence[Doubt], before: Sequence[Doubt]
) -> list[Doubt]:
    """Return the doubt of a step between windows of other sites; none if they are the same, or failed just now.

    Arguments:
        last, now: sites of the window before, none if they are not known, and of this one.
        missing: doubts of sites that failed in this window.
        before: doubts of sites that were missing in the window before.
    """
    failed, lacked = ({name for doubt in found for name in doubt.concerns} for found in (missing, before))
    gone, back = sorted(last - now - failed), sorted(lacked & now)
    new = sorted(now - last - lacked) if last else []
    parts = [
        (gone, "were there in the window before, and are absent from this one"),
        (back, "were missing in the window before, and are back"),
        (new, "are new in this window"),
    ]
    said = [f"site(s) {', '.join(map(repr, names))} {how}" for names, how in parts if names]
    if not said:
        return []
    sentence = (
        f"{'; '.join(said)}: where they differ from the others, the step between reads that as drift; compare windows "
        "of the same sites"
    )
    return [Doubt(DoubtCode.SITE_MISSING, sentence, tuple(gone))]

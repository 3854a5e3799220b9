"""Features that the drift of a step needs: proposed by scores, judged on held-out rows, seen by the auditor."""

from __future__ import annotations

from driftline._inputs import Floats
from driftline.fitting import Learned, Lessers, LogLinear, Loss, Map, Monomials
from driftline.recursion._auditor import Auditor, audited, doubting
from driftline.recursion._calibration import miscalibrated
from driftline.recursion._competition import choose_offset, compete
from driftline.recursion._evidence import Evidence, settled, start_evidence
from driftline.recursion._problem import Problem, Solved, solve
from driftline.recursion._screening import Proposal, propose
from driftline.recursion._settings import StepSettings
from driftline.recursion._sides import Seen
from driftline.recursion._state import Anchor

__all__ = ["Look", "is_off", "looked", "widened"]

_ROUNDS = 4  # rounds of adding features in one step

Look = tuple[Auditor, Seen | None]


def looked(anchor: Anchor, auditor: Auditor, solved: Solved) -> Look:
    """Return the auditor after a look at a step, and what the next one needs of its window."""
    problem, original = solved.problem, anchor.psi.standardizer.original
    past = None if anchor.uncertainty is None else anchor.uncertainty.score
    designs, depend = (solved.num, solved.den), (problem.rows_num, problem.rows_den)
    return audited(auditor, solved.fit, designs, original, depend, past, anchor.seen)


def is_off(solved: Solved) -> bool:
    """Say whether the odds of rows are other than their log-ratio says."""
    problem = solved.problem
    return miscalibrated(solved.fit, (solved.num, solved.den), (problem.rows_num, problem.rows_den), problem.rows)


def widened(
    solved: Solved, anchor: Anchor, loss: Loss, settings: StepSettings, seed: int
) -> tuple[Solved, Evidence, str, Look | None]:
    """Add the features that the drift needs, after a large step only what predicts new rows better.

    If the auditor was shown the fit returned, the last value is what it has seen; its doubt then includes one about the
    odds of rows (:func:`is_off`).
    """
    psi = anchor.psi
    seen: Look | None = None
    if isinstance(psi, LogLinear):
        solved = choose_offset(solved, psi, loss, settings)
    wider, evidence, note = _adapt(solved, anchor, loss, settings, seed)
    if not isinstance(psi, LogLinear):
        return wider, evidence, note, None
    best, won, asked = compete(solved, wider, psi, loss, settings, seed)
    if not asked and anchor.auditor is not None and not anchor.auditor.since:
        seen = looked(anchor, anchor.auditor, wider)
        if not seen[0].since and is_off(wider):
            seen = doubting(seen[0]), seen[1]
        if seen[0].since:
            best, won, _ = compete(solved, wider, psi, loss, settings, seed, missed=True)
    if best is wider:
        return wider, evidence, note, seen
    start = _evidence(anchor, solved.problem)
    past = None if anchor.uncertainty is None else anchor.uncertainty.score
    tried = note.replace("added", "tried")
    return best, _propose(best, start, past, seed).evidence, "; ".join(filter(None, [tried, won])), None


def _evidence(anchor: Anchor, problem: Problem) -> Evidence:
    """Return the evidence so far, or where it begins: at the original, or with features that have been replaced."""
    return start_evidence(problem.z_num, original=problem.first) if anchor.evidence is None else anchor.evidence


def _adapt(
    solved: Solved, anchor: Anchor, loss: Loss, settings: StepSettings, seed: int
) -> tuple[Solved, Evidence, str]:
    """Add the features that the fit's scores call for and fit again, until they call for none."""
    evidence = _evidence(anchor, solved.problem)
    past = None if anchor.uncertainty is None else anchor.uncertainty.score
    notes: list[str] = []
    for attempt in range(_ROUNDS):
        proposal = _propose(solved, evidence, past, seed + attempt)
        if not proposal.reason:
            return solved, proposal.evidence, "; ".join(notes)
        if proposal.forget:
            evidence = proposal.evidence
        notes.append(f"added {proposal.reason}")
        problem = solved.problem
        maps: list[Map] = [Monomials(proposal.curves)] if len(proposal.curves) else []
        if len(proposal.lessers):
            maps.append(Lessers(proposal.lessers))
            evidence = settled(evidence, proposal.lessers)
        wider = problem.features.extend(
            problem.z_num,
            pairs=proposal.pairs,
            weight=proposal.weight,
            bias=proposal.bias,
            others=tuple(Learned(found, evidence.shift, evidence.rate) for found in maps),
            also=problem.z_den,
        )
        solved = solve(problem._replace(features=wider), loss, settings)
    return solved, _propose(solved, evidence, past, seed).evidence, "; ".join(notes)


def _propose(solved: Solved, evidence: Evidence, past: Floats | None, seed: int) -> Proposal:
    """Test candidates by scores that are summed over copies of a row."""
    problem, fit = solved.problem, solved.fit
    num, den = problem.rows_num, problem.rows_den
    return propose(
        evidence,
        num.distinct(solved.num),
        den.distinct(solved.den),
        num.merged(fit.score_num),
        den.merged(fit.score_den),
        None if past is None else num.merged(past),
        rows=problem.rows,
        times=(num.time, den.time),
        seed=seed,
    )

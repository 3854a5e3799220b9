"""Names of the cases, and of the ways in which a line is fitted on the synthetic stream."""

from __future__ import annotations

__all__ = ["CKLIEP", "DRIFTLINE", "ELECTRICITY", "FIRST", "PLAIN", "REFERENCES", "TRUE"]

DRIFTLINE, CKLIEP, REFERENCES, ELECTRICITY = "driftline", "CKLIEP", "references", "electricity"
PLAIN, TRUE, FIRST = "unweighted", "true weights", "trained on D₁"

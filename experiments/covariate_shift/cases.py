"""Names of what is run, and of how a synthetic line is fitted."""

from __future__ import annotations

__all__ = ["CKLIEP", "DRIFTLINE", "ELECTRICITY", "FIRST", "PLAIN", "REFERENCES", "TRUE"]

DRIFTLINE, CKLIEP, REFERENCES, ELECTRICITY = "driftline", "CKLIEP", "references", "electricity"
PLAIN, TRUE, FIRST = "unweighted", "true weights", "trained on D₁"

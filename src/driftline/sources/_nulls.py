"""Words that stand for a missing value in CSV and TSV, besides an empty field."""

from __future__ import annotations

__all__ = ["NULL_WORDS"]

NULL_WORDS = ("NA", "N/A", "nan", "NaN", "null", "None")

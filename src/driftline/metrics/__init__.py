"""Measures of generated against real samples that need both, on feature arrays: FID, KID, PRD, nearest neighbours."""

from driftline.metrics.curves import PRD, prd
from driftline.metrics.distances import KID, fid, kid
from driftline.metrics.nearest import Neighbours, neighbours

__all__ = ["KID", "PRD", "Neighbours", "fid", "kid", "neighbours", "prd"]

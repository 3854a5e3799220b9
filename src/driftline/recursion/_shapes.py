"""Shapes of the arrays in a state, as the docstrings of their tuples describe them.

Each has a kind (float64, int64, int32, bool, float32, int8 by f, i, c, b, s, t) and a shape, with a name for each size
that is not a number; after ``<`` stands the number that all entries stay below. Names hold for one table, where ``d``
are columns and ``n`` rows of a window.
"""

from __future__ import annotations

__all__ = [
    "ANCHOR",
    "AUDITOR",
    "AUDITOR_OF_SUMS",
    "COLUMNS",
    "DENSITIES",
    "EVIDENCE",
    "FEATURES",
    "LEARNED",
    "LESSERS",
    "MONOMIALS",
    "NETWORK_UNCERTAINTY",
    "PARTITIONS",
    "READINGS",
    "SCORES",
    "SUMS",
    "TRACK",
    "TREES",
    "UNCERTAINTY",
    "UNCERTAINTY_OF_SUMS",
    "WIDE",
]

TRACK = {"held": "i", "gain": "f 2", "weak": "i 3", "moved": "f 3", "doubts": "t text"}
_CELLS = {"contrast": "c 1 33", "columns": "c cells 19", "pairs": "c pairs 16"}
PARTITIONS = {
    "live": "i cells <d",
    "edges": "f cells 19",
    "groups": "i cells 3 <19",
    "pairs": "i pairs 2 <cells",
    "levels": "f 32",
    "rows": "f 2",
    "contrast.columns": "i columns <d",
    "contrast.center": "f columns",
    "contrast.unit": "f columns",
    "contrast.pairs": "i products 2 <columns",
    "contrast.coef": "f terms",
    **{f"{part}.{name}": shape for part in ("original", "current") for name, shape in _CELLS.items()},
    **{f"merged.{name}": f"t{shape[1:]} <{shape.split()[-1]}" for name, shape in _CELLS.items()},
}
ANCHOR = {
    "window": "f n d",
    "log_normalizer": "f",
    "lag": "i",
    "forward": "f 3",
    **dict.fromkeys(("mean", "scale", "shift", "rate"), "f d"),
}
SUMS = {
    "moments.rows": "f",
    "moments.mean": "f q",
    "moments.gram": "f half",
    "coef": "f q",
    "c": "f",
    "kappa": "f",
    **dict.fromkeys(("scored", "squared"), "s half"),
    **dict.fromkeys(("heap", "off", "center", "spread"), "f d"),
    "watched": "f m",
    "crossed": "s m q",
    "dependent": "b",
    "copies": "f",
    "time": "f",
    "swell": "f q",
    "candidates.pairs": "i products 2 <d",
    "candidates.columns": "i hinges <d",
    "candidates.knots": "f hinges",
    "candidates.level": "f level",
    "candidates.mean": "f candidates",
    "candidates.rows": "f",
    "hidden": "f 2",
}
READINGS = {
    "estimates": "f 2 kinds levels 12",
    "log_mean": "f",
    "large": "b",
    "coef": "f p",
    "log_normalizer": "f",
    **dict.fromkeys(("parts.reading", "parts.noise", "parts.closed"), "f d"),
    **dict.fromkeys(("parts.linear", "parts.curved"), "f half"),
}
SCORES = {"columns": "i m <d", "knots": "f m 33", "values": "f m 33", "slopes": "f m 2"}
FEATURES = {
    "used": "i 4",
    "linear": "i room0",
    "squares": "i room1",
    "pairs": "i room2 2",
    "weight": "f room3 d",
    "bias": "f room3",
    **dict.fromkeys(("center", "unit", "coef"), "f p"),
}
COLUMNS = ("linear", "squares")
_HALVES = ("covariance", "inverse_hessian", "meat", "meat_num", "first", "origin_spread")
UNCERTAINTY = {
    **dict.fromkeys(_HALVES, "f half"),
    "score": "f n",
    **dict.fromkeys(("bias", "step_bias"), "f q"),
    "origin": "f q q",
    **dict.fromkeys(("mean", "known"), "f p"),
    "slack": "f",
    "quiet": "f 4",
}
UNCERTAINTY_OF_SUMS = {part: shape for part, shape in UNCERTAINTY.items() if part != "meat_num"}
NETWORK_UNCERTAINTY = {  # whole matrices; the original's means may be known in fewer features than there are now
    **dict.fromkeys(_HALVES[:-1], "f q q"),
    "origin_spread": "f u u",
    "score": "f n",
    **dict.fromkeys(("bias", "step_bias"), "f q"),
    "origin": "f q u",
    "mean": "f v",
    "known": "b v",
    "slack": "f",
    "quiet": "f 4",
}
EVIDENCE = {
    **dict.fromkeys(("knots", "hinge_score", "hinge_variance", "hinge_mean"), "f d 5"),
    "trend": "f d 5 3",
    "pair_scores": "f 2 d d",
    **dict.fromkeys(("pair_variance", "row_spread", "pair_mean"), "f d d"),
    **dict.fromkeys(("curve_score", "curve_variance", "curve_mean"), "f curves"),
    **dict.fromkeys(("lesser_score", "lesser_mean"), "f lessers 4"),
    "lesser_variance": "f lessers 4 4",
    "lesser_trend": "f lessers 4 6",
    "hidden": "f 3",
    "step_hidden": "f 2",
    "row_variance": "f",
    "shared": "b",
    **dict.fromkeys(("mean", "shift", "rate"), "f d"),
}
AUDITOR = {
    "weight": "f d units",
    "bias": "f units",
    "columns": "i corners 3 <d",
    "ends": "f corners 3",
    "centres": "f centres d",
    **dict.fromkeys(("mean", "score"), "f m"),
    "variance": "f half",
    **dict.fromkeys(("width", "rows"), "f"),
    "shared": "b",
    **dict.fromkeys(("steps", "since", "gaps"), "i"),
}
AUDITOR_OF_SUMS = AUDITOR | {"variance": "s half"}
WIDE = {
    **dict.fromkeys(("coef", "origin"), "f p"),
    **dict.fromkeys(("level", "noise_first", "noise_last", "between", "variance", "crowd"), "f"),
    **dict.fromkeys(("rows_first", "rows_last", "held_back"), "f"),
}
_CLUSTERS = {
    "gaussian": "i g <d",
    "binary": "i b <d",
    "group": "i b",
    "levels": "f b 2",
    "weights": "f k",
    "means": "f k g",
    "chances": "f k b",
}
DENSITIES = {
    "Mixture": _CLUSTERS | {"variance": "f g", "axes": "f r g", "stretch": "f r"},
    "Ellipsoids": _CLUSTERS | {"whiteners": "f k g g", "freedom": "f"},
}
TREES = {
    "feature": "i k <d",
    "child": "i k <k",
    **dict.fromkeys(("threshold", "value", "gain"), "f k"),
    "start": "i t <k",
}
LESSERS = {"of": "i k 3 <d"}
MONOMIALS = {"factors": "i k 3 <factors"}
LEARNED = {"shift": "f d", "rate": "f d"}

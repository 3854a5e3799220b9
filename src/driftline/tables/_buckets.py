"""Values too many to name: hashed into a few buckets, and marked on a map that says which were there at first.

The hash is the same in every process. A bucket says how many rows have one of its values, the map which values no row
had at first: a cell is marked if the hash of a value at first fell into it. About half of the cells are marked, so a
mark says little about any value: one that was not there is in a marked cell as often as not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["BUCKETS", "bucket_count", "hashed", "is_map", "marked", "marks"]

BUCKETS = (0, 2, 4, 8, 16, 32, 64)
_ROWS = 50  # least rows per bucket, on average
_LEAST = 10  # and in each of them: an empty one would make its first row a value never seen before
_FEWEST_VALUES, _MOST_CELLS = 32, 1 << 16

Hashes = npt.NDArray[np.uint64]


def hashed(values: Iterable[str]) -> Hashes:
    """Return a hash of each value, (n,), the same in every process.

    >>> hashed(["teal", "mauve"]).tolist()
    [14729192671313354699, 3664714166461497187]
    """
    found = (hashlib.blake2b(v.encode(errors="surrogatepass"), digest_size=8).digest() for v in values)
    return np.frombuffer(b"".join(found), dtype="<u8")


def bucket_count(counts: Mapping[str, int], room: int) -> int:
    """Return the number of buckets for these values and their rows: a power of 2, at most ``room``; 0 for none."""
    most = min(room, sum(counts.values()) // _ROWS, len(counts))
    if most < 2:
        return 0
    hashes, rows = hashed(counts), list(counts.values())
    fits = (n for n in BUCKETS[:0:-1] if n <= most and _rows(hashes, rows, n).min() >= _LEAST)
    return next(fits, 0)


def _rows(hashes: Hashes, rows: list[int], buckets: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.bincount((hashes % np.uint64(buckets)).astype(np.int64), rows, buckets), np.float64)


def marks(values: Mapping[str, int]) -> str:
    """Return the map of these values in hexadecimal digits; empty if they are too few or too many for one."""
    cells = 1 << math.ceil(math.log2(max(len(values), 1)))
    if len(values) < _FEWEST_VALUES or cells > _MOST_CELLS:
        return ""
    found = np.zeros(cells, dtype=np.uint8)
    found[_cells(hashed(values), cells)] = 1
    return np.packbits(found).tobytes().hex()


def marked(hashes: Hashes, on: str) -> npt.NDArray[np.bool_]:
    """Say which hashes fall into a marked cell of a map."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(on), dtype=np.uint8))
    return bits[_cells(hashes, len(bits))].astype(bool)


def _cells(hashes: Hashes, cells: int) -> npt.NDArray[np.int64]:
    """Return the cell of each hash; by its upper half, as buckets take the lower one."""
    return ((hashes >> np.uint64(32)) % np.uint64(cells)).astype(np.int64)


def is_map(text: object) -> bool:
    """Say whether this is a map, or empty."""
    if not isinstance(text, str) or len(text) > _MOST_CELLS // 4 or len(text) & (len(text) - 1):
        return False
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return " " not in text and len(text) != 1

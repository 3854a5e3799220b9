"""Features that were learned from rows, and the frame in which rows are handed to them."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

from driftline._codec import Kinds
from driftline._inputs import Floats

__all__ = ["Learned", "Map"]


class Map(Protocol):
    """A frozen function of rows, in the coordinates of the original, that was learned from rows."""

    @property
    def size(self) -> int:
        """Number of features."""
        ...

    def __call__(self, z: Floats) -> Floats:
        """Return the features of rows (n, D), (n, size)."""
        ...

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each feature, (D, size); the shares in a feature sum to 1."""
        ...


class Learned(NamedTuple):
    """Features that were learned from rows, for rows in a frame: ``shift + rate * z`` are their own coordinates."""

    map: Annotated[Map, Kinds("driftline.fitting", "Tangents", "Trees", "Monomials", "Lessers")]
    shift: Annotated[Floats, "D"]
    rate: Annotated[Floats, "D"]

    @property
    def size(self) -> int:
        """Number of features."""
        return self.map.size

    def __call__(self, z: Floats) -> Floats:
        """Return the features of rows (n, D), (n, size)."""
        return self.map(z * self.rate + self.shift)

    def framed(self, shift: Floats, rate: Floats) -> Learned:
        """Return the same features for rows in the frame around ``shift`` with spread ``rate``."""
        return self._replace(shift=self.shift + self.rate * shift, rate=self.rate * rate)

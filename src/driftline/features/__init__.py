"""Features of rows, X -> Z (n, D): a continual VAE, a classifier's last layer, tables of mixed columns, or your own."""

from typing import TYPE_CHECKING, Any

from driftline.features.adapters import as_features
from driftline.features.classifier import ClassifierFeatures
from driftline.features.vae import ContinualVAE

if TYPE_CHECKING:
    from driftline.features.tables import TableEncoder as TableEncoder
    from driftline.features.tables import TableError as TableError

__all__ = ["ClassifierFeatures", "ContinualVAE", "as_features"]


def __getattr__(name: str) -> Any:
    # tables need pyarrow, which is not there without driftline[monitor]: only who asks for them imports it
    if name in ("TableEncoder", "TableError"):
        from driftline.features import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Density ratios on a stream: measure how far the data has moved from where it began, without keeping the original."""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

# names are imported on first use: PyTorch takes seconds to import, and `driftline --help` need not wait for it
_import, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
# `from driftline import *` must not fail, nor load the monitor, where the [monitor] extra is missing
__all__ = [*(name for name in _names if name not in ("Monitor", "Record")), "__version__"]


def __getattr__(name: str) -> Any:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if name not in _names or (error.name or "").startswith("driftline"):
            raise
        raise ImportError(f"driftline.{name} needs {error.name}: pip install 'driftline[monitor]'") from None

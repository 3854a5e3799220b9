"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

# names are imported when they are asked for: PyTorch takes seconds, which `driftline --help` need not wait for
_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if name not in __all__ or (error.name or "").startswith("driftline"):
            raise
        raise ImportError(f"driftline.{name} needs {error.name}: pip install 'driftline[monitor]'") from None

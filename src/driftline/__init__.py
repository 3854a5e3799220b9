"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from driftline.alarms import DriftAlarm, Signal
from driftline.attribution import Attribution
from driftline.continual import Info, OriginalInfo
from driftline.divergences import divergence
from driftline.estimates import Estimate
from driftline.estimators import ContinualDensityRatio
from driftline.fitting import FitDivergedError, FitInfo
from driftline.shell import UntrustedEstimateWarning
from driftline.static import DensityRatio
from driftline.storage import StateFileError
from driftline.training import Training

if TYPE_CHECKING:
    from driftline.monitor.monitor import Monitor as Monitor
    from driftline.monitor.records import Record as Record

__version__ = "0.1.0"

# the monitor needs the [monitor] extra, so it is imported when it is asked for
_MONITOR = {"Monitor": "driftline.monitor.monitor", "Record": "driftline.monitor.records"}

__all__ = [
    "Attribution",
    "ContinualDensityRatio",
    "DensityRatio",
    "DriftAlarm",
    "Estimate",
    "FitDivergedError",
    "FitInfo",
    "Info",
    "OriginalInfo",
    "Signal",
    "StateFileError",
    "Training",
    "UntrustedEstimateWarning",
    "__version__",
    "divergence",
]


def __getattr__(name: str) -> Any:
    if name not in _MONITOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_MONITOR[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"driftline.{name} needs {error.name}: pip install 'driftline[monitor]'") from None


def __dir__() -> list[str]:
    return sorted([*__all__, *_MONITOR])

"""How far is the data now from where it began? Density ratios on a stream, without keeping where it began."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftline.alarms import DriftAlarm as DriftAlarm
    from driftline.alarms import Signal as Signal
    from driftline.attribution import Attribution as Attribution
    from driftline.continual import Info as Info
    from driftline.continual import OriginalInfo as OriginalInfo
    from driftline.divergences import divergence as divergence
    from driftline.estimates import Estimate as Estimate
    from driftline.estimators import ContinualDensityRatio as ContinualDensityRatio
    from driftline.fitting import FitDivergedError as FitDivergedError
    from driftline.fitting import FitInfo as FitInfo
    from driftline.monitor.monitor import Monitor as Monitor
    from driftline.monitor.records import Record as Record
    from driftline.shell import UntrustedEstimateWarning as UntrustedEstimateWarning
    from driftline.static import DensityRatio as DensityRatio
    from driftline.storage import StateFileError as StateFileError
    from driftline.training import Training as Training

__version__ = "0.1.0"

# names are imported when they are asked for: PyTorch takes seconds, which `driftline --help` need not wait for
_HOMES = {
    "Attribution": "driftline.attribution",
    "ContinualDensityRatio": "driftline.estimators",
    "DensityRatio": "driftline.static",
    "DriftAlarm": "driftline.alarms",
    "Estimate": "driftline.estimates",
    "FitDivergedError": "driftline.fitting",
    "FitInfo": "driftline.fitting",
    "Info": "driftline.continual",
    "OriginalInfo": "driftline.continual",
    "Signal": "driftline.alarms",
    "StateFileError": "driftline.storage",
    "Training": "driftline.training",
    "UntrustedEstimateWarning": "driftline.shell",
    "divergence": "driftline.divergences",
}
# these need the [monitor] extra
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
    home = _HOMES.get(name) or _MONITOR.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if name not in _MONITOR:
            raise
        raise ImportError(f"driftline.{name} needs {error.name}: pip install 'driftline[monitor]'") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MONITOR])

"""A run between two windows as bytes, without its Records: what the next window needs, of the same size at any t."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftline.files import StateFileError, pack, unpack
from driftline.monitor._advance import RunState
from driftline.monitor._checks import check_progress
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._storage import progressed, restored, state_bytes
from driftline.monitor._tracker import Content, Progress

__all__ = ["freeze", "thaw"]

VERSION = 1
_FORMAT = "driftline-run"


def freeze(state: RunState) -> bytes:
    """Return a run as bytes, in the form that ``files`` writes; a run thawed from them goes on with equal numbers."""
    meta = {
        "format": _FORMAT,
        "version": VERSION,
        "settings": state.settings.to_dict(),
        "encoder": state.encoder.to_dict(),
        "progress": vars(progressed(state, Progress())),
        "skipped": state.skipped,
    }
    return pack({"state": np.frombuffer(state_bytes(state), np.uint8)}, meta)


def thaw(data: bytes, what: str = "the state") -> RunState:
    """Return the run that :func:`freeze` wrote; ``what`` names it in a :class:`~driftline.files.StateFileError`."""
    arrays, meta = unpack(data, _FORMAT, VERSION, what)
    skipped = meta.get("skipped")
    if not isinstance(skipped, int) or isinstance(skipped, bool) or skipped < 0 or "state" not in arrays:
        raise StateFileError(f"{what}: damaged, its parts are not those of a run")
    try:
        content = _content(meta, arrays["state"].tobytes())
        state = restored(content, content.run(what))
    except TrackerError as error:
        raise StateFileError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from None
    return RunState(**{**vars(state), "skipped": skipped})


def _content(meta: dict[str, Any], state: bytes) -> Content:
    description = {"created": "", "source": "", "settings": meta["settings"], "encoder": meta["encoder"]}
    check_progress(meta["progress"])
    return Content(Progress(**meta["progress"]), description, (), state, {})

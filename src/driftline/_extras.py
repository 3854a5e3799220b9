"""Extras: modules that may be missing, and the error that says how to install them.

Every package attaches its public names here (:func:`attach`), so each of them says what it needs when it is asked for;
what needs more only in some cases, such as ``model="mlp"``, calls :func:`needs`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import lazy_loader

from driftline._errors import Message, Option, Words

__all__ = ["MissingExtraError", "attach", "is_installed", "missing", "needs"]


class _Module(NamedTuple):
    name: str
    extra: str


_MODULES = {
    "fastapi": _Module("FastAPI", "serve"),
    "matplotlib": _Module("matplotlib", "figures"),
    "narwhals": _Module("narwhals", "monitor"),
    "pandas": _Module("pandas", "eval"),
    "prometheus_client": _Module("prometheus-client", "serve"),
    "pyarrow": _Module("pyarrow", "monitor"),
    "pydantic": _Module("pydantic", "serve"),
    "pyspark": _Module("PySpark", "spark"),
    "rich": _Module("rich", "monitor"),
    "starlette": _Module("Starlette", "serve"),
    "torch": _Module("PyTorch", "networks"),
    "torchmetrics": _Module("torchmetrics", "eval"),
    "typer": _Module("typer", "monitor"),
    "uvicorn": _Module("uvicorn", "serve"),
}


class MissingExtraError(ModuleNotFoundError):
    """Module that comes with an extra and is not installed; the message has the command that installs it.

    Attributes:
        message: template and fields, see :class:`driftline._errors.Message`.

    >>> print(MissingExtraError("driftline.fitting.MLP", "torch"))
    driftline.fitting.MLP needs PyTorch: pip install 'driftline[networks]'
    """

    def __init__(self, what: str | Option, module: str, extra: str | None = None, advice: str = "") -> None:
        wanted = _MODULES[module]
        self.message = Message(
            "{what} needs {module}: pip install 'driftline[{extra}]'{advice}",
            what=what,
            module=wanted.name,
            extra=extra or wanted.extra,
            advice=advice and f", {advice}",
        )
        super().__init__(str(self.message), name=module)

    def in_words(self, words: Words) -> str:
        """Return the message, with options spelt in these words."""
        return self.message.in_words(words)


def is_installed(module: str) -> bool:
    """Say whether a module can be imported, without importing it.

    >>> is_installed("numpy"), is_installed("no_such_module")
    (True, False)
    """
    return find_spec(module) is not None


def needs(module: str, what: str | Option, *, advice: str = "") -> None:
    """Raise an error that names the extra to install if a module is missing.

    Arguments:
        module: module to look for; it is not imported.
        what: what needs it, such as an option.
        advice: another way, said after the command.
    """
    if not is_installed(module):
        raise MissingExtraError(what, module, advice=advice)


def missing(error: ModuleNotFoundError, what: str, extra: str | None = None) -> ModuleNotFoundError:
    """Return the error that names the extra, or the error itself if the module belongs to none.

    Arguments:
        error: error of an import.
        what: name that was asked for.
        extra: extra that brings all that the name needs, if not the one that the module belongs to.
    """
    module = (error.name or "").partition(".")[0]
    return MissingExtraError(what, module, extra) if module in _MODULES else error


def attach(
    package: str, file: str, *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are listed in its ``__init__.pyi``.

    Names are imported on first use: SciPy and PyTorch take seconds, and ``driftline --help`` need not wait for them.

    Arguments:
        package: ``__name__`` of the package.
        file: its ``__file__``.
        extra: extra that brings all that the package needs, if not the one that a missing module belongs to.
    """
    load, names, listed = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            explained = missing(error, f"{package}.{name}", extra)
            if explained is error:
                raise
            raise explained from None

    return get, names, listed

"""The list of names that driftline exports: none appears, vanishes or moves by accident."""

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import driftline

LIST = Path(__file__).with_name("exports.txt")


def exports():
    """Yield modules without a leading underscore, each with a name in ``__all__``, or in ``__dir__`` if lazy."""
    modules = [driftline.__name__, *(m.name for m in pkgutil.walk_packages(driftline.__path__, "driftline."))]
    for module in (import_module(name) for name in modules if "._" not in name):
        names = vars(module).get("__dir__", lambda found=module: getattr(found, "__all__", []))()
        yield from ((module, name) for name in names)


def dotted():
    return {f"{module.__name__}.{name}" for module, name in exports()}


def test_exported_names_are_those_listed():
    found, listed = dotted(), set(LIST.read_text().split())
    assert found == listed, (
        f"exported, but not listed: {sorted(found - listed)}; listed, but not exported: {sorted(listed - found)}. "
        "If this is intended, say so in CHANGELOG.md and rewrite the list: python tests/test_exports.py"
    )


@pytest.mark.networks
@pytest.mark.figures
def test_exported_names_exist():
    lacking = [f"{module.__name__}.{name}" for module, name in exports() if not hasattr(module, name)]
    assert not lacking, f"listed in __all__ or __dir__, but not there: {lacking}"


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in sorted(dotted())))

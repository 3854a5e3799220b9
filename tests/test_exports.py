"""The list of names that driftline exports: none appears, vanishes or moves by accident."""

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import driftline

LIST = Path(__file__).with_name("exports.txt")


def exports():
    """Yield names in ``__all__``, or in ``__dir__`` where they are lazy, of modules without a leading underscore."""
    modules = [driftline.__name__, *(m.name for m in pkgutil.walk_packages(driftline.__path__, "driftline."))]
    for module in (import_module(name) for name in modules if "._" not in name):
        names = vars(module).get("__dir__", lambda found=module: getattr(found, "__all__", []))()
        for name in names:
            assert hasattr(module, name), f"{module.__name__} lists {name!r}, but does not have it"
            yield f"{module.__name__}.{name}"


@pytest.mark.networks
def test_exported_names_are_those_listed():
    found, listed = set(exports()), set(LIST.read_text().split())
    assert found == listed, (
        f"exported, but not listed: {sorted(found - listed)}; listed, but not exported: {sorted(listed - found)}. "
        "If this is intended, say so in CHANGELOG.md and rewrite the list: python tests/test_exports.py"
    )


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in sorted(exports())))

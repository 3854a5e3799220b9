"""The house: what docs/architecture.md says about the tree is true."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "driftline", ROOT / "tests"
PACKAGES = sorted(path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
USERS = [SOURCE, ROOT / "experiments", ROOT / "examples"]


def imported(path: Path) -> list[str]:
    """Dotted names of the modules that a file imports, and of what it imports from them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if name.split(".")[0] == "driftline"]


def owner(dotted: str) -> str | None:
    """Return the package whose private module a dotted name reaches into; None if it reaches into none."""
    parts = dotted.split(".")
    private = next((i for i, part in enumerate(parts[:-1], 1) if parts[i].startswith("_")), None)
    return None if private is None or parts[private].startswith("__") else ".".join(parts[:private])


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_every_package_has_tests_of_its_name(package):
    assert list((TESTS / package).glob("test_*.py"))


def test_every_folder_of_tests_belongs_to_something():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path(".")}
    elsewhere = {Path("golden"), *(f for f in folders if f.parts[0] == "experiments")}
    assert folders - elsewhere <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_modules_inside_packages_are_private(package):
    modules = {path.stem for path in (SOURCE / package).glob("*.py")} - {"__init__"}
    assert modules
    assert all(module.startswith("_") for module in modules)


def test_nobody_reaches_into_the_private_modules_of_another_package():
    reached = []
    for path in (path for top in USERS for path in top.rglob("*.py")):
        here = ".".join(("driftline", *path.parent.relative_to(SOURCE).parts)) if SOURCE in path.parents else ""
        for name in imported(path):
            home = owner(name)
            shared = home == "driftline" and here.startswith("driftline")  # _inputs, _wording: for the whole package
            if home is not None and home != here and not shared:
                reached.append(f"{path.relative_to(ROOT)}: {name}")
    assert reached == []


def test_reaching_in_would_be_noticed():
    assert owner("driftline.fitting._newton.fit_convex") == "driftline.fitting"
    assert owner("driftline.fitting._newton") == "driftline.fitting"
    assert owner("driftline.fitting.fit_convex") is None
    assert owner("driftline.__version__") is None


@pytest.mark.figures
def test_every_experiment_is_a_file_or_a_folder_of_its_own():
    from experiments.catalogue import EXPERIMENTS

    for name in EXPERIMENTS:
        place = ROOT / "experiments" / name.replace("-", "_")
        assert place.with_suffix(".py").is_file() != (place / "__init__.py").is_file()


def test_every_public_package_has_one_table_of_names():
    with_table = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.pyi")}
    # the command has an entry point, not an interface; nobody outside the library uses the new engine
    assert with_table == {*PACKAGES, Path(".")} - {Path("cli"), Path("_engine")}


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_lines_of_the_docs_end_at_120_characters(page):
    """Rows of tables, pictures and what the program prints cannot be broken."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120 and not line.lstrip().startswith(("|", "![", "window "))] == []

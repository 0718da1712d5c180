"""Imports point one way, in the order that CONTRIBUTING.md states."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fastmos"
ORDER = re.findall(r"^    (\w+) {2,}\S", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)


def room(module: str) -> str:
    """The room of a module: fastmos.data.batches is in data."""
    return module.split(".")[1]


def imported(path: Path) -> set[str]:
    """Rooms that a file imports anywhere, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "fastmos":
            names = [f"fastmos.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {room(name) for name in names if name.startswith("fastmos.")}
    return found


def test_every_room_has_its_place_in_the_order() -> None:
    there = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    there |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(ORDER) == sorted(there)


@pytest.mark.parametrize("name", ORDER)
def test_a_room_imports_only_what_stands_above_it(name: str) -> None:
    files = [PACKAGE / f"{name}.py"] if (PACKAGE / f"{name}.py").exists() else sorted((PACKAGE / name).rglob("*.py"))
    assert files
    for path in files:
        wrong = {other for other in imported(path) if ORDER.index(other) > ORDER.index(name)}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_heads_import_nothing_else_of_ours() -> None:
    assert set.union(*(imported(path) for path in (PACKAGE / "heads").glob("*.py"))) <= {"heads"}

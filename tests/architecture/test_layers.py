"""The table of layers, held against the imports: a package may import itself and what its row names, nothing else of Kigen.

Only `spark` (and what stands above it) may import pyspark.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "kigen"
BELOW_SPARK = ["durable", "language", "plan", "lifetimes", "schedule", "placement", "standby", "connectors", "links"]
MAY_IMPORT: dict[str, list[str]] = {
    "durable": [],
    "language": [],
    "plan": ["language"],
    "lifetimes": ["plan"],
    "schedule": ["plan"],
    "placement": ["durable", "plan", "schedule"],
    "standby": ["plan"],
    "simulate": ["schedule", "placement", "standby", "plan"],
    "connectors": ["durable", "plan", "lifetimes"],
    "links": ["durable", "lifetimes", "standby"],
    "spark": BELOW_SPARK,
    "engine": [*BELOW_SPARK, "spark", "simulate"],
    "bench": ["engine", "simulate", "spark", *BELOW_SPARK],
    "reproduce": ["engine", "simulate", "spark", *BELOW_SPARK],
    "cli": ["engine", "simulate", "spark", "bench", "reproduce", "dashboard", *BELOW_SPARK],
    "dashboard": ["engine", "spark", *BELOW_SPARK],
}
FILES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import; write the full name"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names if node.module == "kigen"}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert package in MAY_IMPORT, f"package {package} is not in the table of layers"
    allowed = {package, *MAY_IMPORT[package]}
    for name in imported(path):
        if name.startswith("kigen."):
            assert name.split(".")[1] in allowed, f"{package} may not import {name}"
        if name.split(".")[0] in ("pyspark", "py4j"):
            assert package not in BELOW_SPARK, f"{package} may not import pyspark"


def test_every_package_is_in_the_table() -> None:
    packages = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert packages <= set(MAY_IMPORT), packages - set(MAY_IMPORT)


def test_init_files_only_re_export() -> None:
    for path in ROOT.rglob("__init__.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        kinds = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.FunctionDef)
        assert all(isinstance(node, kinds) for node in body), path
        assert sum(isinstance(node, ast.FunctionDef) for node in body) <= 1, path


def test_no_two_test_files_have_one_name() -> None:
    """Test folders are not packages: two files of one name cannot be collected in one run."""
    names = [p.name for p in (ROOT.parents[1] / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)

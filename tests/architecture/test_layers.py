"""Checks imports against the table of packages (`.importlinter`), and checks what import-linter cannot see."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT, LAB = ROOT / "src" / "kigen", ROOT / "lab" / "src" / "kigen_lab"
FILES = sorted([*PRODUCT.rglob("*.py"), *LAB.rglob("*.py")])
MOST_FILES = 16  # per folder, without __init__.py; beyond that, families become folders


def test_imports_point_down() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_a_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    checked = {contracts[section]["source_modules"].strip() for section in contracts if ":contract:" in section}
    rooms = {f"kigen.{p.name}" for p in PRODUCT.iterdir() if (p / "__init__.py").exists()}
    assert rooms == checked


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_are_absolute(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    assert not [node.lineno for node in nodes if isinstance(node, ast.ImportFrom) and node.level], "write the full name"


def test_init_files_only_re_export() -> None:
    for path in (p for p in FILES if p.name == "__init__.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        kinds = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.FunctionDef)
        assert all(isinstance(node, kinds) for node in body), path
        assert sum(isinstance(node, ast.FunctionDef) for node in body) <= 1, path


def test_folders_stay_small() -> None:
    folders = {p.parent for p in FILES}
    counts = {d: len([p for p in d.glob("*.py") if p.name != "__init__.py"]) for d in folders}
    assert not {str(d.relative_to(ROOT)): n for d, n in counts.items() if n > MOST_FILES}


def test_no_two_test_files_have_one_name() -> None:
    """Test folders are not packages, so two files of one name cannot be collected in one run."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)

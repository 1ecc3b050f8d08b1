"""Checks that every module, name and file that docstrings, comments and pages cite exists."""

from __future__ import annotations

import re
import tokenize
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src", ROOT / "lab", ROOT / "tests", ROOT / "docs", ROOT / "examples", ROOT / "scripts")
TEXTS = sorted(
    [
        *(p for folder in FOLDERS for p in folder.rglob("*") if p.suffix in (".py", ".md", ".sh", ".toml")),
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
    ]
)
CITED = re.compile(r"(?<![\w./\"'-])kigen(?:_lab)?(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(r"(?<![\w.])(?:src|lab|tests|docs|scripts|examples)/[\w./-]*\w\.(?:py|md|sh|toml|cql|json|png)\b")
FILE_ENDINGS = {"py", "md", "csv", "json", "toml", "cql", "whl", "egg-info"}
SETTINGS = {"kigen.sync", "kigen.commands"}  # a Java property; a group of entry points
# written by those who follow docs/how-to/add-an-operator.md
EXAMPLES = {"src/kigen/plan/logical/unique.py", "src/kigen/lifetimes/sets/unique.py"}
HISTORY = {ROOT / "CHANGELOG.md"}  # tells what was, with the names of its time


def exists(name: str) -> bool:
    """Checks whether a dotted name is a module, or a name in a module or in a class."""
    module, rest = _module(name)
    if module is None:
        return False
    found: object = import_module(module)
    for part in rest:
        annotated = part in getattr(found, "__annotations__", {}) or part in getattr(found, "__slots__", ())
        if not hasattr(found, part) and not annotated:
            return False
        found = getattr(found, part, None)
    return True


@cache
def _module(name: str) -> tuple[str | None, tuple[str, ...]]:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            if find_spec(".".join(parts[:end])) is not None:
                return ".".join(parts[:end]), tuple(parts[end:])
        except ModuleNotFoundError:
            continue
    return None, ()


def cited(text: str) -> list[str]:
    return [
        name
        for name in dict.fromkeys(CITED.findall(text))
        if name not in SETTINGS and name.rsplit(".", 1)[-1] not in FILE_ENDINGS
    ]


def prose(path: Path) -> str:
    """Returns the strings and comments of Python, which mypy does not check, and all of other files."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8")
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return "\n".join(token.string for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT))


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): prose(path) for path in TEXTS if path not in HISTORY}


def _stands_for_others(file: str) -> bool:
    return file in EXAMPLES or "NNN" in file or "NAME" in file


def test_cited_names_exist(texts: dict[str, str]) -> None:
    wrong = {path: [name for name in cited(text) if not exists(name)] for path, text in texts.items()}
    assert {path: names for path, names in wrong.items() if names} == {}


def test_cited_files_exist(texts: dict[str, str]) -> None:
    wrong = {
        path: [n for n in FILE.findall(text) if not (ROOT / n).exists() and not _stands_for_others(n)]
        for path, text in texts.items()
    }
    assert {path: names for path, names in wrong.items() if names} == {}


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("kigen.plan.types.Schema")
    assert exists("kigen.cli.nodes.restarts.Restarts.died")
    assert not exists("kigen.plan.nothing")
    assert not exists("kigen.plan.types.Nothing")
    assert cited("see kigen.plan.types, `kigen.Engine(spark)` and rooms.kigen.csv") == [
        "kigen.plan.types",
        "kigen.Engine",
    ]

"""Binds CREATE FUNCTION: finds the module, and checks what can be checked without running any of its code.

A module is looked up beside the app file, then on Python's path. Checking an app imports nothing: a file beside the app
is only parsed. Its text becomes part of the plan, so that it reaches workers on other machines, and so that a changed
function is noticed. A function is code that runs with the rights of the workers: a file beside the app must belong to
the owner of the app file, and nobody else may be able to write it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from pathlib import Path

from kigen.language.app_text import Source
from kigen.language.declarations import TYPES_HINT, FunctionDecl
from kigen.language.errors import CqlError, CqlErrors, suggest
from kigen.plan.binder.expressions.duckdb_types import functions as known_functions
from kigen.plan.logical import Function
from kigen.plan.type_texts import declared_type
from kigen.plan.types import Type

_TARGET = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
_ROOT, _OTHERS_WRITE = 0, 0o002


def bind_function(source: Source, decl: FunctionDecl, directory: str) -> Function:
    """Returns the function; raises CqlErrors with everything that is wrong in its statement."""
    errors: list[CqlError] = []
    name = decl.name.text
    if name.lower() in known_functions():
        hint = f"give it another name, as in my_{name.lower()}"
        errors.append(source.error(decl.name.span, f"{name} is a function that CQL has already", hint))
    kinds: list[Type] = []
    for written in (*(column.type for column in decl.parameters), decl.returns):
        kind = declared_type(written.text)
        if kind is None:
            errors.append(source.error(written.span, f"unknown type {written.text}", TYPES_HINT))
        else:
            kinds.append(kind)
    target = _TARGET.fullmatch(decl.target.text)
    if target is None:
        errors.append(source.error(decl.target.span, "a function is named as module:function", "write AS 'module:f'"))
    if errors or target is None:
        raise CqlErrors(errors)
    module, attribute = target[1], target[2]
    file = Path(directory, *module.split(".")).with_suffix(".py")
    if not file.is_file():
        _check_installed(source, decl, module, directory)
        return Function(name, tuple(kinds[:-1]), kinds[-1], module, attribute)
    _check_owner(source, decl, file)
    code = _checked_text(source, decl, file, attribute)
    return Function(name, tuple(kinds[:-1]), kinds[-1], module, attribute, str(file), code)


def _check_installed(source: Source, decl: FunctionDecl, module: str, directory: str) -> None:
    """Raises if Python has no such module. Only the first part of the name is looked up: more would import it."""
    try:
        found = importlib.util.find_spec(module.split(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        hint = f"put {module.replace('.', '/')}.py beside the app file, or install the module"
        raise source.error(decl.target.span, f"there is no Python module {module}", hint)


def _check_owner(source: Source, decl: FunctionDecl, file: Path) -> None:
    status, app = file.stat(), Path(source.file_at(decl.name.span))
    owner = app.stat().st_uid if app.is_file() else os.getuid()
    if status.st_uid not in (owner, _ROOT):
        hint = "functions are code: let the file belong to the owner of the app file"
        raise source.error(decl.target.span, f"{file.name} belongs to another user than the app file", hint)
    if status.st_mode & _OTHERS_WRITE:
        hint = f"functions are code: run chmod o-w {file.name}"
        raise source.error(decl.target.span, f"every user may write {file.name}", hint)


def _checked_text(source: Source, decl: FunctionDecl, file: Path, attribute: str) -> str:
    try:
        code = file.read_text(encoding="utf-8")
        names = _top_names(ast.parse(code))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
        message = f"{file.name} cannot be read as Python: {error}"
        raise source.error(decl.target.span, message, "mend the file") from error
    if attribute not in names and "*" not in names:
        hint = suggest(attribute, sorted(names), f"names in {file.name}")
        raise source.error(decl.target.span, f"{file.name} has no function {attribute}", hint)
    return code


def _top_names(tree: ast.Module) -> set[str]:
    """Returns the names that the module defines; also those inside `if` and `try`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found

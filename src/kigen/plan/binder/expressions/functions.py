"""Checks the functions that an expression calls, as DuckDB's own parser sees them.

Quotes, a schema before the name, a call with a dot, and words that are hidden function calls (`current_date`, `user`)
all appear in the parser's tree, so the check uses that tree and not the text.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from kigen.plan.binder.expressions.allowed_functions import AGGREGATES, ALLOWED, OPERATORS

Rows = Callable[[str], list[tuple[object, ...]]]
_NOWHERE = 2**63
_COLUMN = re.compile(r"c\d+|kigen_none")
_WIDTH = re.compile(r"\d{4,}|\*|\{[^{}]*\{")  # a format with a width that is too large, or not a literal
_FORMATS = frozenset({"format", "printf"})
# `x -> y` may be a path into JSON or a lambda, which no allowed function takes: binding tells them apart.
_ARROW = "SINGLE_ARROW"
_MEANT = {"random": "use a column of the stream", "range": "list what you need, as in IN (1, 2, 3)"}


class NotAllowed(Exception):
    """A part of an expression is not allowed. `start` is its place in the given text; None if it is not known."""

    def __init__(self, message: str, hint: str, start: int | None, name: str) -> None:
        super().__init__(message)
        self.message, self.hint, self.start, self.name = message, hint, start, name


def check_functions(rows: Rows, sql: str, known: Collection[str]) -> None:
    """Raises NotAllowed for the first part that is not allowed. Text that cannot be parsed, and functions that DuckDB
    does not know, pass: binding them gives a better error."""
    for node, start in _nodes(rows, sql):
        if node["class"] == "FUNCTION" and str(node["function_name"]).lower() in known:
            _check_call(node, start)
        elif node["class"] == "LAMBDA" and node.get("syntax_type") != _ARROW:
            raise NotAllowed("a lambda cannot be used in a continuous query", "leave it out", start, "lambda")


def check_columns(rows: Rows, sql: str) -> None:
    """Raises NotAllowed for a word that DuckDB bound although no column has that name: a hidden function call, such as
    a clock. Call it only for expressions that could be bound; the others have an error of their own."""
    for node, start in _nodes(rows, sql):
        if node["class"] == "COLUMN_REF" and not _COLUMN.fullmatch(str(node["column_names"][0])):
            name = str(node["column_names"][0])
            raise NotAllowed(
                f"{name} is not a column here, and cannot be used in a continuous query",
                "use a column of the stream",
                start,
                name,
            )


def _nodes(rows: Rows, sql: str) -> Iterator[tuple[dict[str, Any], int | None]]:
    """Yields every expression of the parser's tree with its place in the text; nothing if the text cannot be parsed."""
    prefix = "SELECT "
    quoted = (prefix + sql).replace("'", "''")
    tree = json.loads(str(rows(f"SELECT json_serialize_sql('{quoted}')")[0][0]))
    if tree.get("error"):
        return
    for node in _walk(tree["statements"]):
        place = node.get("query_location", _NOWHERE)
        start = (
            None if place >= _NOWHERE else len((prefix + sql).encode()[:place].decode(errors="ignore")) - len(prefix)
        )
        yield node, start


def _check_call(node: dict[str, Any], start: int | None) -> None:
    *before, name = [
        str(part).lower() for part in (node.get("qualified_name") or {}).get("path") or [node["function_name"]]
    ]
    if name not in ALLOWED:
        usual = sorted(ALLOWED - OPERATORS - AGGREGATES)
        best = next(iter(difflib.get_close_matches(name, usual, n=1, cutoff=0.75)), None)
        hint = _MEANT.get(name) or (f"did you mean {best}?" if best else "see the language reference for functions")
        raise NotAllowed(f"function {name} cannot be used in a continuous query", hint, start, name)
    called_by_dot = len(before) == 1 and _COLUMN.fullmatch(before[0]) is not None
    if before and not called_by_dot:
        raise NotAllowed(f"{name} must be called without a schema", f"write {name}(...)", start, name)
    arguments = [
        argument.get("expression", argument) for argument in node.get("arguments") or node.get("children") or []
    ]
    if name == "age" and len(arguments) + called_by_dot < 2:
        raise NotAllowed("age with one argument reads the clock", "write age(later, earlier)", start, name)
    if name in _FORMATS and not (arguments and not called_by_dot and _is_narrow(arguments[0])):
        hint = "write the format as a string in 'single quotes', with widths below 1000"
        raise NotAllowed(f"{name} needs a literal format with small widths", hint, start, name)


def _is_narrow(node: dict[str, Any]) -> bool:
    value = node.get("literal") or node.get("value") or {}
    text = value.get("text", value.get("value")) if node.get("class") == "CONSTANT" else None
    return isinstance(text, str) and not _WIDTH.search(text)


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "class" in value:
            yield value
        for inner in value.values():
            yield from _walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner)

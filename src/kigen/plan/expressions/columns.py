"""Finds and replaces columns in the text of expressions.

This is the only module that looks for `c0`, `c1`, ... in SQL text. Invariant: quoted text is left alone. Text with
quotes that are hard to recognize (`$tag$`, `e'...'`, a backslash) is not `movable`, and callers leave it where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from kigen.plan.logical import Expr, with_own_names
from kigen.plan.types import Schema, Type

_COLUMN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bc(\d+)\b""")
_ODD_QUOTES = re.compile(r"\$|\\|\b[eE]'")


def movable(sql: str) -> bool:
    """Returns whether the columns of the text can be found with certainty."""
    return _ODD_QUOTES.search(sql) is None


def columns_of(sql: str) -> frozenset[int]:
    """Returns the columns that the text reads; perhaps too many if the text is not movable."""
    if not movable(sql):
        return frozenset(int(found) for found in re.findall(r"\bc(\d+)\b", sql))
    return frozenset(int(found) for found in _COLUMN.findall(sql) if found)


def with_columns_replaced(sql: str, text_of: Callable[[int], str]) -> str:
    """Returns the text with column c replaced by `text_of(c)`."""
    return _COLUMN.sub(lambda found: found[0] if found[1] is None else text_of(int(found[1])), sql)


def moved(expr: Expr, place: Callable[[int], int]) -> Expr:
    """Returns the expression with column c replaced by column place(c)."""
    sql = with_columns_replaced(expr.sql, lambda c: f"c{place(c)}")
    return replace(expr, sql=sql, column=None if expr.column is None else place(expr.column))


def substituted(expr: Expr, exprs: Sequence[Expr], schema: Schema) -> Expr:
    """Returns the expression with column c replaced by `exprs[c]`, which is over columns of `schema`. Its text then
    uses the names of `schema`."""
    if expr.column is not None:
        return exprs[expr.column]
    if all(exprs[c].column is not None for c in columns_of(expr.sql)):
        renamed = moved(expr, lambda c: exprs[c].column or 0)
    else:
        renamed = replace(expr, sql=with_columns_replaced(expr.sql, lambda c: _operand(exprs[c])))
    return replace(renamed, text=shown(renamed.sql, schema))


def shown(sql: str, schema: Schema) -> str:
    """Returns the text with the names of columns, for people."""
    return with_own_names(with_columns_replaced(sql, lambda c: schema[c].name))


def _operand(expr: Expr) -> str:
    return expr.sql if expr.column is not None else f"({expr.sql})"


def bare(schema: Schema, column: int) -> Expr:
    """Returns the expression that is just a column."""
    return Expr(f"c{column}", schema[column].type, schema[column].name, column)


def all_of(exprs: Sequence[Expr]) -> Expr:
    """Returns one condition that is true where all of them are."""
    if len(exprs) == 1:
        return exprs[0]
    return Expr(" AND ".join(f"({e.sql})" for e in exprs), Type.BOOLEAN, " AND ".join(e.text for e in exprs))

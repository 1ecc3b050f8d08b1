"""Compiles common expressions for small blocks to numpy: DuckDB needs more than a millisecond per call.

An expression is parsed once per process and type of its columns, and becomes a tree of Python closures. Only forms
whose meaning is simple are taken: columns, constants, arithmetic, comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL,
COALESCE, CASE, and casts that change nothing or widen. Invariant: an answer equals DuckDB's. Three things hold it. A
closure raises `Unsure` wherever the two could differ (overflow, division by zero, NaN, infinity), and DuckDB answers or
raises its own error. Each new closure is compared with DuckDB on rows of awkward values, and refused if any differs.
What is not understood is left to DuckDB. Cost: 2 to 10 microseconds per operation; 5 ms once per expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from sqlglot import exp

from kigen.lifetimes.expressions.forms import FORMS
from kigen.lifetimes.expressions.values import (
    BOOL,
    CONSTANTS,
    DOUBLE,
    TYPES,
    Closure,
    NotTaken,
    Typed,
    Unsure,
    as_arrow,
    fixed,
    reader,
    widened,
)
from kigen.plan.expressions.parsed import parsed, text_of
from kigen.plan.types import Type

MOST_ROWS = 512  # of a small block; above it, DuckDB's cost per call does not matter any more

Ask = Callable[[str], tuple[Any, str]]  # a constant expression to its value and the name of DuckDB's type


@dataclass(frozen=True)
class SmallExpression:
    run: Closure
    type: Type

    def __call__(self, columns: pa.RecordBatch) -> pa.Array:
        """Raises Unsure."""
        values = self.run(columns)
        return as_arrow(values, self.type)


def compiled(sql: str, wanted: Type, columns: pa.RecordBatch, ask: Ask) -> SmallExpression | None:
    """The expression as a closure, not yet compared with DuckDB; None if it is not one of those that are taken."""
    tree = parsed(sql)
    if tree is None:
        return None
    types = [TYPES.get(column.type) for column in columns.columns]
    try:
        typed = _Compiler(types, ask).compile(tree)
        typed = widened(typed, wanted)
    except (NotTaken, Unsure, RecursionError):
        return None
    return SmallExpression(typed.run, wanted)


@lru_cache(maxsize=4096)
def columns_read(sql: str) -> tuple[int, ...] | None:
    """The numbers of the columns that an expression reads; None if it cannot be parsed."""
    tree = parsed(sql)
    if tree is None:
        return None
    names = {column.name for column in tree.find_all(exp.Column)}
    if not all(name[:1] == "c" and name[1:].isdigit() for name in names):
        return None
    return tuple(sorted(int(name[1:]) for name in names))


class _Compiler:
    def __init__(self, types: Sequence[Type | None], ask: Ask) -> None:
        self._types, self._ask = types, ask

    def compile(self, tree: exp.Expression) -> Typed:
        if isinstance(tree, exp.Paren):
            return self.compile(tree.this)
        if isinstance(tree, exp.Column):
            return self._column(tree)
        if not any(True for _ in tree.find_all(exp.Column)):
            return self._constant(tree)
        build = FORMS.get(type(tree))
        if build is None:
            raise NotTaken(tree.sql())
        return build(self, tree)

    def _column(self, tree: exp.Column) -> Typed:
        if tree.args.get("table") or not tree.name[1:].isdigit() or int(tree.name[1:]) >= len(self._types):
            raise NotTaken(tree.sql())
        place = int(tree.name[1:])
        kind = self._types[place]
        if kind is None:
            raise NotTaken(tree.sql())
        return Typed(reader(place, kind), kind)

    def _constant(self, tree: exp.Expression) -> Typed:
        """DuckDB computes it, once."""
        value, name = self._ask(text_of(tree))
        if name.startswith("DECIMAL"):
            value, name = self._ask(f"CAST({text_of(tree)} AS DOUBLE)")
            return fixed(value, DOUBLE, decimal=True)
        kind = CONSTANTS.get(name)
        if kind is None or value is None:
            raise NotTaken(tree.sql())
        return fixed(value, kind)

    def two(self, tree: exp.Expression) -> tuple[Typed, Typed]:
        return self.compile(tree.this), self.compile(tree.expression)

    def truth(self, tree: exp.Expression) -> Typed:
        typed = self.compile(tree)
        if typed.type is not BOOL:
            raise NotTaken(tree.sql())
        return typed

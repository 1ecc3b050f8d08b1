"""Builds a join from its keys and conditions: key expressions become columns of its inputs, and inequalities become
hints for its index.

Invariant: the rows are those of the cross product for which every key pair is equal and every condition is true. The
residual contains all conditions. A `Comparison` only repeats what one of them requires, in a form that an index can
use. A hint may be weaker than its condition and is never stronger: where DuckDB compares exact decimals, the hint
compares doubles, and `<` becomes `<=`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kigen.plan.binder.expressions.duckdb_types import DuckError, Types, column_type, common_type, held, is_exact
from kigen.plan.expressions.columns import all_of, bare, columns_of, moved, shown
from kigen.plan.expressions.conditions import Compared, comparisons_of, parts_of
from kigen.plan.logical import Comparison, Expr, Join, PlanNode, Project
from kigen.plan.types import Schema, Type

_ORDERED = frozenset({Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP})


def join_of(left: PlanNode, right: PlanNode, keys: Sequence[tuple[Expr, Expr]], conditions: Sequence[Expr]) -> Join:
    """Returns a join. `keys` are pairs of one type, over the left and over the right input. `conditions` are over the
    columns of left, then right. The columns of the inputs keep their order; columns computed for keys and hints follow
    the columns of their input."""
    width = len(left.schema)
    hints = [hint for condition in conditions for part in parts_of(condition.sql) for hint in _hints(part, left, right)]
    new_left, left_places = with_columns(left, [a for a, _ in keys] + [h.left for h in hints])
    new_right, right_places = with_columns(right, [b for _, b in keys] + [h.right for h in hints])
    shift = len(new_left.schema) - width
    residual = all_of([moved(c, lambda i: i if i < width else i + shift) for c in conditions]) if conditions else None
    count = len(keys)
    pairs = zip(hints, left_places[count:], right_places[count:], strict=True)
    found = dict.fromkeys(Comparison(a, h.op, b) for h, a, b in pairs)
    return Join(new_left, new_right, left_places[:count], right_places[:count], residual, tuple(found))


def common(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    """Returns both sides in one type if they can be compared as keys, else None."""
    kind = common_type(left.type, right.type)
    return None if kind is None else (as_type(left, kind), as_type(right, kind))


def as_type(expr: Expr, kind: Type) -> Expr:
    return expr if expr.type is kind else Expr(f"CAST({expr.sql} AS {kind.duckdb})", kind, expr.text)


def with_columns(node: PlanNode, exprs: list[Expr]) -> tuple[PlanNode, tuple[int, ...]]:
    """Returns the node with those expressions appended that are not its columns, and the column of each expression."""
    schema = node.schema
    width = len(schema)
    extra = list(dict.fromkeys(e for e in exprs if e.column is None))
    places = tuple(e.column if e.column is not None else width + extra.index(e) for e in exprs)
    if not extra:
        return node, places
    names = (*(c.name for c in schema), *(e.text for e in extra))
    return Project(node, (*(bare(schema, i) for i in range(width)), *extra), names), places


@dataclass(frozen=True)
class Sides:
    """A comparison with one side over the left input and one over the right input."""

    left: Expr
    op: str
    right: Expr


def sides_of(compared: Compared, left: PlanNode, right: PlanNode) -> Sides | None:
    """Splits a comparison over the columns of left, then right, into its two sides in one type. Returns None if a side
    reads both inputs, or neither, or if the types have no common type."""
    width = len(left.schema)
    for each in (compared, compared.flipped):
        a, b = columns_of(each.left), columns_of(each.right)
        if a and b and max(a) < width <= min(b):
            one = expression(each.left, left.schema)
            other = expression(_shifted(each.right, width), right.schema)
            pair = None if one is None or other is None else common(one, other)
            return None if pair is None else Sides(pair[0], each.op, pair[1])
    return None


def expression(sql: str, schema: Schema) -> Expr | None:
    """Returns the text as an expression over the columns of a schema; None if no column can have its type."""
    if sql[:1] == "c" and sql[1:].isdigit():
        return bare(schema, int(sql[1:]))
    try:
        kind, cast = column_type(sql, types_of(schema))
    except DuckError:
        return None
    if kind is None:
        return None
    text = held(sql, types_of(schema))
    return Expr(f"CAST({text} AS {kind.duckdb})" if cast else text, kind, shown(sql, schema))


def types_of(schema: Schema) -> Types:
    return tuple(c.type for c in schema)


def _hints(part: str, left: PlanNode, right: PlanNode) -> list[Sides]:
    """Returns the comparisons of a condition that an index can use. The condition cannot raise."""
    found: list[Sides] = []
    both = types_of(left.schema + right.schema)
    for compared in comparisons_of(part):
        sides = None if compared.op == "=" else sides_of(compared, left, right)
        if sides is not None and sides.left.type in _ORDERED:
            exact = is_exact(compared.left, both) and is_exact(compared.right, both)
            found.append(sides if exact else replace(sides, op=sides.op[0] + "="))
    return found


def _shifted(sql: str, width: int) -> str:
    return moved(Expr(sql, Type.BOOLEAN, ""), lambda c: c - width).sql

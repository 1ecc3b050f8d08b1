"""Computes what a sub-query without GROUP BY returns over no rows: SQL gives one row, in which COUNT is 0 and the other
aggregates are NULL.

Kigen's own global aggregate has no row while all its windows are empty. Beside the rows of an outer query it must have
SQL's value, so the value is put there as a constant.
"""

from __future__ import annotations

import duckdb

from kigen.plan.expressions.columns import substituted
from kigen.plan.expressions.locked_duckdb import connect
from kigen.plan.logical import Aggregate, Expr, Filter, PlanNode, Project


def row_over_nothing(node: PlanNode) -> tuple[Expr, ...] | None:
    """Returns the columns of the only row as expressions without columns; None if there is no row over nothing."""
    if isinstance(node, Aggregate) and not node.keys:
        return tuple(
            Expr("CAST(0 AS BIGINT)", a.type, "0")
            if a.func.value.startswith("COUNT")
            else Expr(f"CAST(NULL AS {a.type.duckdb})", a.type, "NULL")
            for a in node.aggs
        )
    if isinstance(node, Project):
        row = row_over_nothing(node.child)
        return None if row is None else tuple(substituted(e, row, ()) for e in node.exprs)
    if isinstance(node, Filter):
        row = row_over_nothing(node.child)
        return row if row is not None and _is_true(substituted(node.predicate, row, ())) else None
    return None


def _is_true(condition: Expr) -> bool:
    try:
        with connect() as connection:
            value = connection.execute(f"SELECT {condition.sql}").fetchone()
    except duckdb.Error:
        return False
    return value is not None and value[0] is True


def is_aggregate(node: PlanNode) -> bool:
    """Returns whether the relation is an aggregate without GROUP BY, perhaps filtered by HAVING."""
    if isinstance(node, Filter | Project):
        return is_aggregate(node.child)
    return isinstance(node, Aggregate) and not node.keys

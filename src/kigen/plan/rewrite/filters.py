"""Takes filters apart and puts them together, for all rewrite rules.

Invariant: the `parts` of a condition are all true exactly where the condition is true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kigen.plan.binder.expressions.duckdb_types import DuckError, describe
from kigen.plan.expressions.columns import all_of, shown
from kigen.plan.expressions.conditions import parts_of
from kigen.plan.expressions.raising import may_raise
from kigen.plan.join_building import types_of
from kigen.plan.logical import Expr, Filter, PlanNode
from kigen.plan.types import Schema, Type


def parts(condition: Expr, schema: Schema) -> list[Expr]:
    """Returns the conditions that AND joins, over the same columns."""
    pieces = parts_of(condition.sql)
    if len(pieces) == 1:
        return [condition]
    texts = parts_of(condition.text)
    if len(texts) != len(pieces):
        texts = [shown(sql, schema) for sql in pieces]
    try:
        return [Expr(_as_condition(sql, schema), Type.BOOLEAN, text) for sql, text in zip(pieces, texts, strict=True)]
    except DuckError:
        return [condition]


def _as_condition(sql: str, schema: Schema) -> str:
    """Casts a number to a condition: `a AND b` accepts numbers, but alone each of them needs a CAST."""
    return sql if describe(sql, types_of(schema)).type == "BOOLEAN" else f"CAST({sql} AS BOOLEAN)"


def risky(condition: Expr, schema: Schema) -> bool:
    return may_raise(condition.sql, types_of(schema))


def on_top(node: PlanNode, conditions: Sequence[Expr]) -> PlanNode:
    """Returns the rows for which all conditions are true. Merges them into the node if it is a filter that cannot
    raise."""
    kept = list(dict.fromkeys(conditions))
    if not kept:
        return node
    if isinstance(node, Filter) and not risky(node.predicate, node.schema):
        known = parts(node.predicate, node.schema)
        more = [c for c in kept if c not in known]
        return Filter(node.child, all_of([*known, *more])) if more else node
    return Filter(node, all_of(kept))


class Uses:
    """Counts the readers of each sub-plan: other nodes, and queries whose result it is."""

    def __init__(self, roots: Sequence[PlanNode]) -> None:
        self._counts = Counter(dict.fromkeys(roots, 1))
        seen: set[PlanNode] = set()
        for root in roots:
            for node in root.walk():
                if node not in seen:
                    seen.add(node)
                    self._counts.update(set(node.children))

    def shared(self, node: PlanNode) -> bool:
        """Returns whether the sub-plan has several readers, so that a change for one would make the others compute it
        again."""
        return self._counts[node] > 1

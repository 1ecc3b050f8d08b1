"""Cuts a filter so that conditions that cannot raise are tested first, and conditions that might raise see only the
rows that are left.

SQL's `x <> 0 AND 10 // x > 1` must not divide by 0, and DuckDB's WHERE does not. As one expression, both sides would be
evaluated on all rows. Invariant: conditions that might raise keep the order in which they were written, each in a
filter of its own.
"""

from __future__ import annotations

from kigen.plan.expressions.columns import all_of
from kigen.plan.logical import Filter, PlanNode
from kigen.plan.rebuild import with_children
from kigen.plan.rewrite.filters import parts, risky


def guard_filters(roots: list[PlanNode]) -> list[PlanNode]:
    done: dict[int, PlanNode] = {}  # by identity: equal nodes may differ in names

    def visit(node: PlanNode) -> PlanNode:
        if id(node) not in done:
            new = with_children(node, visit)
            done[id(node)] = _guarded(new) if isinstance(new, Filter) else new
        return done[id(node)]

    return [visit(root) for root in roots]


def _guarded(node: Filter) -> PlanNode:
    schema = node.schema
    found = parts(node.predicate, schema)
    might = [part for part in found if risky(part, schema)]
    safe = [part for part in found if part not in might]
    if len(found) == 1 or not might:
        return node
    below: PlanNode = Filter(node.child, all_of(safe)) if safe else node.child
    for part in might:
        below = Filter(below, part)
    return below

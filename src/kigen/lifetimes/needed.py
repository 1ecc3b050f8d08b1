"""Finds the columns of each node that something above it reads. Operators do not make the other columns."""

from __future__ import annotations

from collections.abc import Iterable

from kigen.lifetimes.operator_spec import Columns
from kigen.lifetimes.registry import spec_of
from kigen.plan.logical import PlanNode, Query

Needed = dict[PlanNode, Columns]


def needed_columns(nodes: list[PlanNode], queries: Iterable[Query]) -> Needed:
    """Returns the needed columns of each node. `nodes` are ordered, children first. All columns of a query's own result
    are needed."""
    needed: Needed = {node: set() for node in nodes}
    for query in queries:
        needed[query.root] |= set(range(len(query.schema)))
    for node in reversed(nodes):
        if node.children:
            for child, columns in zip(node.children, spec_of(node).needs(node, needed[node]), strict=True):
                needed[child] |= columns
    return needed

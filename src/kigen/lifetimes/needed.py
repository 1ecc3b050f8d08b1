"""Which columns of each node anything above it looks at: what nobody reads need not be made."""

from __future__ import annotations

from collections.abc import Iterable

from kigen.plan.expressions.columns import columns_of
from kigen.plan.logical import Aggregate, Expr, Filter, Join, PlanNode, Project, Query, UnionAll
from kigen.plan.shared_joins.share_nodes import JoinShare

Needed = dict[PlanNode, set[int]]


def needed_columns(nodes: list[PlanNode], queries: Iterable[Query]) -> Needed:
    """`nodes` are ordered, children first; a query's own result is needed whole."""
    needed: Needed = {node: set() for node in nodes}
    for query in queries:
        needed[query.root] |= set(range(len(query.schema)))
    for node in reversed(nodes):
        for child, columns in zip(node.children, _of_children(node, needed[node]), strict=True):
            needed[child] |= columns
    return needed


def _of_children(node: PlanNode, mine: set[int]) -> list[set[int]]:
    if isinstance(node, Filter):
        return [mine | _named(node.predicate)]
    if isinstance(node, Project):
        return [set().union(*(_named(node.exprs[i]) for i in mine))]
    if isinstance(node, UnionAll | JoinShare):
        return [set(mine) for _ in node.children]
    if isinstance(node, Aggregate):
        arguments = {agg.arg for agg in node.aggs if agg.arg is not None}
        return [set(node.keys) | arguments, *(set() for _ in node.presence)]
    if isinstance(node, Join):
        width = len(node.left.schema)
        both = mine | joined_columns(node)
        left = {c for c in both if c < width} | set(node.left_keys)
        return [left, {c - width for c in both if c >= width} | set(node.right_keys)]
    return [set(range(len(child.schema))) for child in node.children]


def joined_columns(node: Join) -> set[int]:
    """What a join looks at in a pair: the columns of its residual and of its comparisons."""
    width = len(node.left.schema)
    compared = {c.left for c in node.comparisons} | {width + c.right for c in node.comparisons}
    return compared | (_named(node.residual) if node.residual else set())


def _named(expr: Expr) -> set[int]:
    return set(columns_of(expr.sql))

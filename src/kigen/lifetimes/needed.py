"""Which columns of each node anything above it looks at: what nobody reads need not be made."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kigen.plan.nodes import Expr, Filter, Join, Node, Project, Query, UnionAll

Needed = dict[Node, set[int]]


def needed_columns(nodes: list[Node], queries: Iterable[Query]) -> Needed:
    """`nodes` are ordered, children first; a query's own result is needed whole."""
    needed: Needed = {node: set() for node in nodes}
    for query in queries:
        needed[query.root] |= set(range(len(query.schema)))
    for node in reversed(nodes):
        for child, columns in zip(node.children, _of_children(node, needed[node]), strict=True):
            needed[child] |= columns
    return needed


def _of_children(node: Node, mine: set[int]) -> list[set[int]]:
    if isinstance(node, Filter):
        return [mine | _named(node.predicate)]
    if isinstance(node, Project):
        return [set().union(*(_named(e) for e in node.exprs))]
    if isinstance(node, UnionAll):
        return [set(mine) for _ in node.inputs]
    if isinstance(node, Join):
        width = len(node.left.schema)
        both = mine | (_named(node.residual) if node.residual else set())
        left = {c for c in both if c < width} | set(node.left_keys)
        return [left, {c - width for c in both if c >= width} | set(node.right_keys)]
    return [set(range(len(child.schema))) for child in node.children]


def _named(expr: Expr) -> set[int]:
    return {int(c) for c in re.findall(r"\bc(\d+)\b", expr.sql)}

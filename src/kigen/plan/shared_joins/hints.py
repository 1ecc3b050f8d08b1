"""Removes the columns of a join that were computed only for hints, and computes them again above it.

An expression such as `a.ts + INTERVAL 5 SECOND` in an inequality becomes a column below the join, so that an index can
use it. Joins that differ only in such conditions still belong to one family (kigen.plan.shared_joins.sharing), so there
these columns are computed above the join. Invariant: conditions that give hints cannot raise, so these expressions
cannot raise either, wherever they are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kigen.plan.expressions.columns import bare, columns_of, moved
from kigen.plan.logical import Expr, Join, PlanNode, Project


@dataclass(frozen=True)
class Plain:
    """A join without columns for hints. `restore` computes the original columns over those of `join`; empty if they are
    the same."""

    join: Join
    restore: tuple[Expr, ...] = ()


def without_computed_hints(join: Join) -> Plain:
    """Returns the join without columns that only its comparisons read."""
    width = len(join.left.schema)
    read = columns_of(join.residual.sql) if join.residual is not None else frozenset()
    left_read = {c for c in read if c < width} | set(join.left_keys)
    right_read = {c - width for c in read if c >= width} | set(join.right_keys)
    left = _Side(join.left, {c.left for c in join.comparisons} - left_read)
    right = _Side(join.right, {c.right for c in join.comparisons} - right_read)
    if not left.dropped and not right.dropped:
        return Plain(join)
    new_width = width - len(left.dropped)

    def place(column: int) -> int:
        return left.place(column) if column < width else new_width + right.place(column - width)

    kept = [c for c in join.comparisons if c.left not in left.dropped and c.right not in right.dropped]
    plain = replace(
        join,
        left=left.without(),
        right=right.without(),
        left_keys=tuple(left.place(k) for k in join.left_keys),
        right_keys=tuple(right.place(k) for k in join.right_keys),
        residual=None if join.residual is None else moved(join.residual, place),
        comparisons=tuple(replace(c, left=left.place(c.left), right=right.place(c.right)) for c in kept),
    )
    restored = [left.made(c) or bare(plain.schema, place(c)) for c in range(width)]
    for c in range(len(join.right.schema)):
        expr = right.made(c)
        restored.append(
            bare(plain.schema, place(width + c)) if expr is None else moved(expr, lambda at: new_width + at)
        )
    return Plain(plain, tuple(restored))


class _Side:
    """An input of a join. `dropped` are columns that a projection appends to its input's columns for hints only."""

    def __init__(self, node: PlanNode, hints: set[int]) -> None:
        self.node = node
        self.dropped: set[int] = set()
        if isinstance(node, Project):
            handed = len(node.child.schema)
            if [e.column for e in node.exprs[:handed]] == list(range(handed)):
                self.dropped = {c for c in hints if c >= handed and node.exprs[c].column is None}

    def place(self, column: int) -> int:
        return column - sum(c < column for c in self.dropped)

    def made(self, column: int) -> Expr | None:
        """Returns the expression of a dropped column, over the columns that remain."""
        return self.node.exprs[column] if column in self.dropped and isinstance(self.node, Project) else None

    def without(self) -> PlanNode:
        node = self.node
        if not self.dropped or not isinstance(node, Project):
            return node
        kept = [c for c in range(len(node.exprs)) if c not in self.dropped]
        if len(kept) == len(node.child.schema):
            return node.child
        return replace(node, exprs=tuple(node.exprs[c] for c in kept), names=tuple(node.names[c] for c in kept))

"""Moves the conditions of a filter into the join right below it: an equality of both sides becomes a key, and the rest
become conditions of the join.

`SELECT ... FROM (SELECT ... FROM a, b) WHERE x = y` is a cross product as written, with many more pairs than rows that
are left. Invariant: only conditions that cannot raise are moved, and a join with other readers is left alone. The
columns above stay the same: where keys or hints need columns of their own, a projection removes them again.
"""

from __future__ import annotations

from dataclasses import replace

from kigen.plan.expressions.columns import all_of, bare, movable
from kigen.plan.expressions.conditions import comparisons_of
from kigen.plan.join_building import join_of, sides_of
from kigen.plan.logical import Expr, Filter, Join, PlanNode, Project
from kigen.plan.rebuild import with_children
from kigen.plan.rewrite.filters import Uses, parts, risky


def join_conditions(roots: list[PlanNode]) -> list[PlanNode]:
    uses = Uses(roots)
    done: dict[int, PlanNode] = {}  # by identity: equal nodes may differ in names

    def visit(node: PlanNode) -> PlanNode:
        if id(node) not in done:
            new = with_children(node, visit)
            alone = isinstance(node, Filter) and not uses.shared(node.child)
            done[id(node)] = _taken(new) if alone and isinstance(new, Filter) else new
        return done[id(node)]

    return [visit(root) for root in roots]


def _taken(node: Filter) -> PlanNode:
    join = node.child
    if not isinstance(join, Join):
        return node
    found = parts(node.predicate, node.schema)
    taken = [part for part in found if movable(part.sql) and not risky(part, node.schema)]
    if not taken:
        return node
    names = [c.name for c in join.schema]
    joined = _with(join, taken)
    above: PlanNode = joined
    if len(joined.schema) > len(names):
        width, shift = len(join.left.schema), len(joined.left.schema) - len(join.left.schema)
        exprs = tuple(bare(joined.schema, c if c < width else c + shift) for c in range(len(names)))
        above = Project(joined, exprs, tuple(names))
    held = [part for part in found if part not in taken]
    return Filter(above, all_of(held)) if held else above


def _with(join: Join, taken: list[Expr]) -> Join:
    left, right = join.left, join.right
    keys = [(bare(left.schema, a), bare(right.schema, b)) for a, b in zip(join.left_keys, join.right_keys, strict=True)]
    conditions = [] if join.residual is None else [join.residual]
    for part in taken:
        compared = comparisons_of(part.sql)
        sides = sides_of(compared[0], left, right) if len(compared) == 1 and compared[0].op == "=" else None
        if sides is None:
            conditions.append(part)
        else:
            keys.append((sides.left, sides.right))
    return replace(join_of(left, right, list(dict.fromkeys(keys)), conditions), place=join.place)

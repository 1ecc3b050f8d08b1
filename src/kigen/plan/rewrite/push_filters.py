"""Moves conditions that cannot raise down the plan as far as they keep their meaning: into subqueries, joins,
aggregates and set operations.

| passes | where |
|---|---|
| Filter | always |
| Project | with its expressions in place of its columns, if the condition still cannot raise |
| Join | into the side that it reads, and through equal keys into the other side |
| Unnest | if it does not read the element |
| Aggregate | if there are keys and it reads only keys |
| Distinct, UnionAll, Except, Intersect | into every input |
| Window, ToStream | never: a row removed earlier would not push others out of a ROWS window |

Invariant: a condition does not enter a sub-plan with several readers; it stays above, and the sub-plan is computed
once. A filter from which nothing moves stays as it is. Cost: linear in the plan, times the conditions that move.
"""

from __future__ import annotations

from dataclasses import replace

from kigen.plan.expressions.columns import all_of, columns_of, movable, moved, shown, substituted
from kigen.plan.logical import Aggregate, Expr, Filter, Join, PlanNode, Project, Unnest
from kigen.plan.rebuild import with_children
from kigen.plan.rewrite.filters import Uses, on_top, parts, risky


def push_filters(roots: list[PlanNode]) -> list[PlanNode]:
    push = _Push(Uses(roots))
    return [push.rewritten(root) for root in roots]


class _Push:
    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._done: dict[int, PlanNode] = {}  # by identity: equal nodes may differ in names

    def rewritten(self, node: PlanNode) -> PlanNode:
        """Returns the node with all conditions below it as low as possible."""
        if id(node) not in self._done:
            self._done[id(node)] = (
                self._filter(node, []) if isinstance(node, Filter) else with_children(node, self.rewritten)
            )
        return self._done[id(node)]

    def pushed(self, node: PlanNode, conditions: list[Expr]) -> PlanNode:
        """Returns the rows of the node for which all conditions are true. None of the conditions can raise."""
        inside = [c for c in conditions if self._passes(node, c)]
        if not inside:
            return on_top(self.rewritten(node), conditions)
        return on_top(self._inside(node, inside), [c for c in conditions if c not in inside])

    def _passes(self, node: PlanNode, condition: Expr) -> bool:
        if self._uses.shared(node) or not movable(condition.sql):
            return False
        used = columns_of(condition.sql)
        if isinstance(node, Project):
            child = node.child.schema
            return all(movable(node.exprs[c].sql) for c in used) and not risky(
                substituted(condition, node.exprs, child), child
            )
        if isinstance(node, Join):
            width = len(node.left.schema)
            return all(c < width for c in used) or all(c >= width for c in used)
        if isinstance(node, Unnest):
            return all(c < len(node.child.schema) for c in used)
        if isinstance(node, Aggregate):
            return bool(node.keys) and all(c < len(node.keys) for c in used)
        return node.conditions_move_below

    def _inside(self, node: PlanNode, conditions: list[Expr]) -> PlanNode:
        if isinstance(node, Filter):
            return self._filter(node, conditions)
        if isinstance(node, Project):
            below = [substituted(c, node.exprs, node.child.schema) for c in conditions]
            return replace(node, child=self.pushed(node.child, below))
        if isinstance(node, Join):
            return self._join(node, conditions)
        if isinstance(node, Aggregate):
            keys = [moved(c, lambda column: node.keys[column]) for c in conditions]
            return replace(node, child=self.pushed(node.child, keys))
        return with_children(node, lambda child: self.pushed(child, conditions))

    def _filter(self, node: Filter, conditions: list[Expr]) -> PlanNode:
        """Moves the filter's own conditions down together with those from above. Those that might raise stay, above
        all."""
        own = parts(node.predicate, node.schema)
        held = [c for c in own if risky(c, node.schema)]
        going = [c for c in own if c not in held] + conditions
        if not conditions and not any(self._passes(node.child, c) for c in going):
            return with_children(node, self.rewritten)
        below = self.pushed(node.child, going)
        return Filter(below, all_of(held)) if held else below

    def _join(self, node: Join, conditions: list[Expr]) -> PlanNode:
        width = len(node.left.schema)
        left: list[Expr] = []
        right: list[Expr] = []
        for condition in conditions:
            used = columns_of(condition.sql)
            if all(c < width for c in used):
                left.append(condition)
                right += self._through_keys(
                    condition, dict(zip(node.left_keys, node.right_keys, strict=True)), node.right
                )
            else:
                own = moved(condition, lambda column: column - width)
                right.append(own)
                left += self._through_keys(own, dict(zip(node.right_keys, node.left_keys, strict=True)), node.left)
        return replace(node, left=self.pushed(node.left, left), right=self.pushed(node.right, right))

    def _through_keys(self, condition: Expr, equal: dict[int, int], other: PlanNode) -> list[Expr]:
        """Returns a condition on key columns for the other side's keys, where it also holds. DOUBLE keys are excluded,
        because 0.0 equals -0.0 but is written differently."""
        used = columns_of(condition.sql)
        if not used or not used <= equal.keys() or any(other.schema[equal[c]].type.holds("DOUBLE") for c in used):
            return []
        across = moved(condition, lambda column: equal[column])
        return [replace(across, text=shown(across.sql, other.schema))]

"""The join tree of a FROM: left-deep, conditions as low as they may go, no cross product where another order avoids it.

Invariant: the rows are those of the cross product of all inputs filtered by all conjuncts. A conjunct that might raise is tested
last, above all joins, in the order written, on exactly the rows that survive the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from kigen.plan.binder.expressions import predicate, typed
from kigen.plan.binder.scope import Scope
from kigen.plan.binder.sources import Conjunct
from kigen.plan.binder.terms import Term
from kigen.plan.nodes import Expr, Filter, Join, Node, Project
from kigen.plan.types import Type

_NUMBERS = frozenset({Type.BIGINT, Type.DOUBLE})


@dataclass
class Base:
    """A node, and where each position of the scope is among its columns."""

    node: Node
    places: dict[int, int]

    def place(self, position: int) -> int:
        return self.places[position]

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.node.schema)


def join_inputs(scope: Scope, found: list[Conjunct]) -> Base:
    return _Planner(scope, found).plan()


def filtered(base: Base, terms: list[tuple[Term, str]]) -> Base:
    """Rows for which every term is true."""
    exprs = [predicate(term, base.types, clause, base.place) for term, clause in terms]
    return Base(Filter(base.node, all_of(exprs)), base.places) if exprs else base


def all_of(exprs: list[Expr]) -> Expr:
    if len(exprs) == 1:
        return exprs[0]
    return Expr(" AND ".join(f"({e.sql})" for e in exprs), Type.BOOLEAN, " AND ".join(e.text for e in exprs))


def bare(node: Node, column: int) -> Expr:
    schema = node.schema[column]
    return Expr(f"c{column}", schema.type, schema.name, column)


class _Planner:
    def __init__(self, scope: Scope, found: list[Conjunct]) -> None:
        self.scope, self.waiting = scope, list(found)

    def inputs_of(self, positions: frozenset[int]) -> frozenset[int]:
        return frozenset(self.scope.input_of(p) for p in positions)

    def plan(self) -> Base:
        left = [self._leaf(k) for k in range(len(self.scope.inputs))]
        joined, current = {0}, left[0]
        while len(joined) < len(left):
            k = self._next(joined)
            current = self._join(current, joined, left[k], k)
            joined.add(k)
        return filtered(current, [(c.term, c.clause) for c in self.waiting if c.term is not None])

    def _leaf(self, k: int) -> Base:
        entry = self.scope.inputs[k]
        base = Base(entry.relation.node, {entry.offset + i: i for i in range(len(entry.relation.names))})
        own = [c for c in self.waiting if c.safe and c.term is not None and self.inputs_of(c.positions()) == {k}]
        self.waiting = [c for c in self.waiting if c not in own]
        return filtered(base, [(c.term, c.clause) for c in own if c.term is not None])

    def _next(self, joined: set[int]) -> int:
        rest = [k for k in range(len(self.scope.inputs)) if k not in joined]
        return next((k for k in rest if any(self._key_sides(c, joined, k) for c in self.waiting)), rest[0])

    def _key_sides(self, conjunct: Conjunct, joined: set[int], k: int) -> tuple[Term, Term] | None:
        """The sides of an equality between what is joined and input `k`, in that order."""
        if conjunct.sides is None or not conjunct.safe:
            return None
        for one, other in (conjunct.sides, conjunct.sides[::-1]):
            inputs = self.inputs_of(one.positions())
            if inputs and inputs <= joined and self.inputs_of(other.positions()) == {k}:
                return one, other
        return None

    def _join(self, left: Base, joined: set[int], right: Base, k: int) -> Base:
        keys: list[tuple[Expr, Expr]] = []
        used: list[Conjunct] = []
        for conjunct in self.waiting:
            sides = self._key_sides(conjunct, joined, k)
            if sides is None:
                continue
            pair = _common(typed(sides[0], left.types, left.place), typed(sides[1], right.types, right.place))
            if pair is not None:
                keys.append(pair)
                used.append(conjunct)
        left_node, left_keys = _with_columns(left.node, [a for a, _ in keys])
        right_node, right_keys = _with_columns(right.node, [b for _, b in keys])
        shift = len(left_node.schema)
        result = Base(Join(left_node, right_node, left_keys, right_keys), left.places | {p: shift + c for p, c in right.places.items()})
        here = joined | {k}
        rest = [c for c in self.waiting if c not in used and c.safe and c.term is not None and c.positions()]
        rest = [c for c in rest if self.inputs_of(c.positions()) <= here]
        self.waiting = [c for c in self.waiting if c not in used and c not in rest]
        if rest:
            residual = all_of([predicate(c.term, result.types, c.clause, result.place) for c in rest if c.term is not None])
            result.node = Join(left_node, right_node, left_keys, right_keys, residual)
        return result


def _common(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    """Both sides in one type, if they can be compared as keys."""
    if left.type is right.type:
        return left, right
    if {left.type, right.type} <= _NUMBERS:
        return as_double(left), as_double(right)
    return None


def as_double(expr: Expr) -> Expr:
    return expr if expr.type is Type.DOUBLE else Expr(f"CAST({expr.sql} AS DOUBLE)", Type.DOUBLE, expr.text)


def _with_columns(node: Node, exprs: list[Expr]) -> tuple[Node, tuple[int, ...]]:
    """The node with the expressions that are not columns of it appended, and where each expression is."""
    width = len(node.schema)
    extra = list(dict.fromkeys(e for e in exprs if e.column is None))
    places = tuple(e.column if e.column is not None else width + extra.index(e) for e in exprs)
    if not extra:
        return node, places
    exprs_all = (*(bare(node, i) for i in range(width)), *extra)
    return Project(node, exprs_all, (*(c.name for c in node.schema), *(e.text for e in extra))), places

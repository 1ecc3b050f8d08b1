"""Builds the join tree of a FROM: left-deep, with conditions as low as possible and cross products only where no other
order avoids them.

Invariant: the rows are those of the cross product of all inputs, filtered by all conjuncts. Conditions are evaluated in
this order:

1. Conditions on one input that cannot raise (kigen.plan.expressions.raising) are tested first, below all joins,
   wherever they were written. So they guard everything that follows on that input.
2. Conditions on one input that might raise are tested next, in a filter of their own above the first, in the order
   written. Exception: if a condition other than a key reads that input together with another, it may be a guard, and
   rule 4 applies.
3. An equality between two sides that read different inputs is a join key, even if it might raise. Its sides are
   computed below the join, on the rows that rules 1 and 2 leave. An equality whose sides have no common type is not a
   key.
4. Other conditions on several inputs are tested by the first join that has all of them, if they cannot raise. The rest
   are tested last, above all joins, in the order written, on exactly the rows that pass everything else.

So a join guards nothing that rules 2 or 3 evaluate below it. DuckDB plans the same way, but may exclude rows at run
time by the range of the other side's keys: there it can return a result where Kigen raises (docs/decisions/017).

A condition on one column that cannot raise also holds for the columns that a key makes equal to it, and is tested there
as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import predicate, typed
from kigen.plan.binder.expressions.duckdb_types import Types
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct, Leaf
from kigen.plan.binder.from_clause.join_order import Link, join_order
from kigen.plan.estimates import Rates
from kigen.plan.expressions.columns import all_of, shown
from kigen.plan.join_building import common, join_of
from kigen.plan.logical import Expr, Filter, Join


def join_inputs(leaves: Sequence[Leaf], types: Types, found: list[Conjunct], rates: Rates) -> Base:
    """Returns the joined leaves, filtered. `types` are those of the scope's columns, `rates` the tuples per second of
    the streams that declare a rate."""
    return _Planner(leaves, types, found, rates).plan()


def filtered(base: Base, terms: list[tuple[Term, str]]) -> Base:
    """Keeps the rows for which every term is true."""
    exprs = [predicate(term, base.types, clause, base.place) for term, clause in terms]
    return Base(Filter(base.node, all_of(exprs)), base.places) if exprs else base


class _Planner:
    def __init__(self, leaves: Sequence[Leaf], types: Types, found: list[Conjunct], rates: Rates) -> None:
        self.leaves, self.types, self.rates, self.found = leaves, types, rates, found
        self.leaf_of = {position: k for k, leaf in enumerate(leaves) for position in leaf.base.places}
        self.keys = [c for c in found if self._is_key(c)]
        others = [c for c in found if c not in self.keys]
        self.several = [c for c in others if len(self.inputs_of(c.positions())) > 1]
        self.own = [c for c in others if c not in self.several and self._may_go_first(c)]
        self.last = [c for c in others if c not in self.own and not (c.safe and c in self.several)]

    def inputs_of(self, positions: frozenset[int]) -> frozenset[int]:
        return frozenset(self.leaf_of[p] for p in positions)

    def plan(self) -> Base:
        leaves = [self._leaf(k) for k in range(len(self.leaves))]
        first, *rest = join_order([leaf.node.rows_alive(self.rates) for leaf in leaves], self._link)
        joined, current = frozenset({first}), leaves[first]
        for k in rest:
            current = self._join(current, joined, leaves[k], k)
            joined |= {k}
        return filtered(current, [(c.term, c.clause) for c in self.found if c in self.last and c.term is not None])

    # --- keys -----------------------------------------------------------------------------------------------------

    def _is_key(self, conjunct: Conjunct) -> bool:
        """Returns whether it is an equality of different inputs whose sides have a common type."""
        if conjunct.sides is None:
            return False
        one, other = (self.inputs_of(side.positions()) for side in conjunct.sides)
        if not one or not other or one & other or min(len(one), len(other)) > 1:
            return False
        try:
            return common(typed(conjunct.sides[0], self.types), typed(conjunct.sides[1], self.types)) is not None
        except CqlError:
            return False  # a type that no column can have, such as INTERVAL

    def _key_sides(self, conjunct: Conjunct, joined: frozenset[int], k: int) -> tuple[Term, Term] | None:
        """Returns the sides of an equality between the joined inputs and input `k`, in that order."""
        assert conjunct.sides is not None
        for one, other in (conjunct.sides, conjunct.sides[::-1]):
            if self.inputs_of(one.positions()) <= joined and self.inputs_of(other.positions()) == {k}:
                return one, other
        return None

    def _link(self, joined: frozenset[int], k: int) -> Link:
        if any(self._key_sides(c, joined, k) for c in self.keys):
            return Link.EQUAL
        return Link.ORDERED if any(c.safe and self._tested_with(c, joined, k) for c in self.several) else Link.CROSS

    def _tested_with(self, conjunct: Conjunct, joined: frozenset[int], k: int) -> bool:
        """Returns whether input `k` is the last one that the condition needs."""
        inputs = self.inputs_of(conjunct.positions())
        return k in inputs and inputs <= joined | {k}

    # --- one input ------------------------------------------------------------------------------------------------

    def _may_go_first(self, conjunct: Conjunct) -> bool:
        """Returns whether a condition on one input, or on none, is tested below the joins."""
        mine = self.inputs_of(conjunct.positions())
        return conjunct.safe or (bool(mine) and not any(mine <= self.inputs_of(c.positions()) for c in self.several))

    def _leaf(self, k: int) -> Base:
        base = self.leaves[k].base
        own = [c for c in self.own if (self.inputs_of(c.positions()) or {0}) == {k}]
        safe = [predicate(c.term, base.types, c.clause, base.place) for c in own if c.safe and c.term]
        safe = list(dict.fromkeys([*safe, *self._implied(k, base)]))
        if safe:
            base = Base(Filter(base.node, all_of(safe)), base.places)
        return filtered(base, [(c.term, c.clause) for c in own if not c.safe and c.term])

    def _implied(self, k: int, base: Base) -> list[Expr]:
        """Returns conditions on other inputs that hold for this one through keys."""
        found: list[Expr] = []
        for conjunct in self.own:
            positions = conjunct.positions()
            if len(positions) != 1 or not conjunct.safe or conjunct.term is None or self.inputs_of(positions) == {k}:
                continue
            for equal in self._equal_to(*positions):
                if self.leaf_of[equal] == k:
                    expr = predicate(
                        conjunct.term,
                        base.types,
                        conjunct.clause,
                        dict.fromkeys(positions, base.place(equal)).__getitem__,
                    )
                    found.append(replace(expr, text=shown(expr.sql, base.node.schema)))
        return found

    def _equal_to(self, position: int) -> list[int]:
        """Returns the columns that keys make equal to one, bit for bit: of the same type, and not DOUBLE (0.0 equals
        -0.0)."""
        types = self.types
        found, added = {position}, True
        while added and not types[position].holds("DOUBLE"):
            pairs = [{column_of(side) for side in c.sides} for c in self.keys if c.sides is not None]
            more = {p for pair in pairs if pair & found for p in pair if p is not None and types[p] is types[position]}
            added = not more <= found
            found |= more
        return sorted(found - {position})

    # --- joins ----------------------------------------------------------------------------------------------------

    def _join(self, left: Base, joined: frozenset[int], right: Base, k: int) -> Base:
        keys: list[tuple[Expr, Expr]] = []
        for conjunct in self.keys:
            sides = self._key_sides(conjunct, joined, k)
            if sides is not None:
                pair = common(typed(sides[0], left.types, left.place), typed(sides[1], right.types, right.place))
                assert pair is not None, "it was found to be a key"
                keys.append(pair)
        width = len(left.node.schema)
        both = Base(Join(left.node, right.node), left.places | {p: width + c for p, c in right.places.items()})
        # An equality of three inputs is not a key in every order.
        no_keys = [c for c in self.keys if self._key_sides(c, joined, k) is None]
        here = [c for c in self.found if (c in self.several or c in no_keys) and self._tested_with(c, joined, k)]
        self.last += [c for c in here if c in no_keys and not c.safe]
        here = [c for c in here if c.safe]
        node = join_of(
            left.node, right.node, keys, [predicate(c.term, both.types, c.clause, both.place) for c in here if c.term]
        )
        shift = len(node.left.schema)
        place = self.leaves[k or max(joined)].place
        return Base(replace(node, place=place), left.places | {p: shift + c for p, c in right.places.items()})


def column_of(term: Term) -> int | None:
    """Returns the position if the term is just a column, else None."""
    target = term.refs[0].target if term.refs else None
    return target if isinstance(target, int) and len(term.sql().pieces) == 1 else None

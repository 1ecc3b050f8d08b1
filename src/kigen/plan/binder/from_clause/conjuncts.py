"""Defines what a FROM is made of while it is planned: conditions cut at their ANDs, and nodes that know which positions
of the scope their columns are."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Span, span_of
from kigen.plan.binder.expressions.duckdb_types import Types
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.expressions.raising import may_raise
from kigen.plan.logical import PlanNode
from kigen.plan.types import Type


@dataclass
class Base:
    """A node, and which of its columns each position of the scope is."""

    node: PlanNode
    places: dict[int, int]

    def place(self, position: int) -> int:
        return self.places[position]

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.node.schema)


@dataclass(frozen=True)
class Leaf:
    """A part of FROM whose inputs are joined already: one input, or those of an outer join. Inner joins may put leaves
    in any order."""

    base: Base
    place: Span


@dataclass(frozen=True)
class Conjunct:
    """One condition of WHERE, ON or USING. The `sides` of an equality may become join keys. A `safe` condition cannot
    raise on any row (kigen.plan.expressions.raising), so it may be tested earlier than it was written."""

    term: Term | None  # None: USING, which has only its sides
    sides: tuple[Term, Term] | None
    safe: bool
    clause: str = "WHERE"
    at_or_after: bool = False  # the first side is not equal, but equal or greater: the last column of USING in ASOF

    def positions(self) -> frozenset[int]:
        if self.term is not None:
            return self.term.positions()
        assert self.sides is not None
        return self.sides[0].positions() | self.sides[1].positions()


def conjuncts(node: exp.Expr, term: Term, types: Types, clause: str) -> list[Conjunct]:
    """Cuts a condition at its ANDs. `types` are those of the scope's columns."""
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.And) and span_of(inner.this) and span_of(inner.expression):
        return conjuncts(inner.this, term, types, clause) + conjuncts(inner.expression, term, types, clause)
    span = span_of(node)
    part = term if span is None else term.part(span)
    sides = None
    if isinstance(inner, exp.EQ):
        left, right = span_of(inner.this), span_of(inner.expression)
        if left and right:
            sides = (term.part(left), term.part(right))
    return [Conjunct(part, sides, not may_raise(part.sql().text, types), clause)]

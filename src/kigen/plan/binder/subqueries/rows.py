"""Binds the rows of a SELECT: FROM, and WHERE with its sub-queries.

A sub-query that is a condition by itself filters the rows by a semi or anti join. Every other one becomes a column of
the rows that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.error_collector import ErrorCollector
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct
from kigen.plan.binder.from_clause.inputs import FromBinder
from kigen.plan.binder.from_clause.joins import column_of, filtered, join_inputs
from kigen.plan.binder.subqueries.binding import BindBody, Open, Subqueries
from kigen.plan.binder.subqueries.marks import ScalarMark


class RowsBinder:
    """Base of the binder of a SELECT."""

    def __init__(self, catalog: Catalog, bind_body: BindBody, open_select: Open) -> None:
        self.catalog, self.source = catalog, catalog.source
        self.sources = FromBinder(catalog, bind_body)
        self.scope = self.sources.scope
        self.subqueries = Subqueries(catalog, bind_body, open_select, self.scope)
        self.errors = ErrorCollector()

    def filtered(self, found: list[Conjunct]) -> Base:
        """Returns the joined inputs for which all conditions are true. Conditions that read sub-queries come last."""
        marks = self.subqueries.marks
        later = [c for c in found if c.positions() & marks.keys()]
        base = self.joined(self.sources.conjuncts + [c for c in found if c not in later])
        tests: list[tuple[Term, str]] = []
        for conjunct in later:
            assert conjunct.term is not None, "USING reads no sub-query"
            mark = marks.get(-1 if (alone := column_of(conjunct.term)) is None else alone)
            if mark is None or isinstance(mark, ScalarMark):
                tests.append((conjunct.term, conjunct.clause))
            else:
                base = mark.kept(base)
        used = frozenset[int]().union(*(term.positions() for term, _ in tests))
        return filtered(self.attached(base, [p for p in marks if p in used]), tests)

    def attached(self, base: Base, positions: Iterable[int]) -> Base:
        """Adds the values of sub-queries as columns, except those that are there already."""
        for position in sorted(set(positions) - base.places.keys()):
            base = self.subqueries.marks[position].attached(base)
        return base

    def item_marks(self, nodes: Sequence[exp.Expr]) -> list[int]:
        """Returns the positions of sub-queries in expressions."""
        columns = [c for node in nodes for c in node.find_all(exp.Column) if not c.table]
        found = [self.scope.find(c) for c in columns if c.name.startswith("\0")]
        return [position for position in found if position is not None]

    def refuse_subqueries(self, nodes: Sequence[exp.Expr]) -> None:
        marks = self.item_marks(nodes)
        if marks:
            raise self.source.error(
                self.subqueries.marks[marks[0]].place,
                "a subquery cannot be among the items of an aggregate",
                "compute the aggregate in a subquery in FROM, and use the other one outside",
            )

    def joined(self, found: list[Conjunct]) -> Base:
        return join_inputs(self.sources.leaves, self.scope.types, found, self.catalog.rates)

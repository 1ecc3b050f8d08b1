"""Finds the sub-queries of an expression, binds them, and puts a column of the scope in place of each.

The rest of the binder then sees columns only. A sub-query of EXISTS or IN may read columns of the outer query, if it is
a plain SELECT; its conditions that do so become the conditions of a semi or anti join. Every other sub-query stands by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from kigen.language.app_text import Span, span_of
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.expressions.binding import place_of, resolve, typed
from kigen.plan.binder.expressions.terms import Ref, Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.binder.subqueries.empty_aggregate import is_aggregate, row_over_nothing
from kigen.plan.binder.subqueries.marks import InMark, Mark, ScalarMark
from kigen.plan.binder.subqueries.scopes import shifted
from kigen.plan.join_building import common
from kigen.plan.logical import Expr, SingleRow
from kigen.plan.types import Type

if TYPE_CHECKING:
    from kigen.plan.binder.subqueries.opening import Opened

BindBody = Callable[[Catalog, exp.Expr], Relation]
Open = Callable[[exp.Select, Scope], "Opened | None"]  # binds FROM and WHERE of a plain SELECT in an outer scope


class Subqueries:
    """The sub-queries of one SELECT, by the position that stands for each."""

    def __init__(self, catalog: Catalog, bind_body: BindBody, open_select: Open, scope: Scope) -> None:
        self.catalog, self.bind_body, self.open_select, self.scope = catalog, bind_body, open_select, scope
        self.source = catalog.source
        self.marks: dict[int, Mark] = {}

    def replaced(self, node: exp.Expr) -> exp.Expr:
        """Returns the expression with a column in place of every sub-query."""
        for part, place, negated in list(_topmost(node)):
            column = self._column(part, place, negated)
            column.meta["span"] = place
            target = part.parent if negated and part.parent is not None else part
            if target is node:
                column.parent = None
                return column
            target.replace(column)
        return node

    def _column(self, part: exp.Expr, place: Span, negated: bool) -> exp.Expr:
        name = f"\0subquery {len(self.marks)}"
        if isinstance(part, exp.Exists):
            kind, mark = Type.BOOLEAN, self._exists(part, place, negated)
        elif isinstance(part, exp.In):
            kind, mark = Type.BOOLEAN, self._in(part, place, negated)
        else:
            assert isinstance(part, exp.Subquery)
            mark = self._scalar(part, place)
            kind = mark.right.types[0]
        self.scope.hide(name, kind)
        self.marks[mark.position] = mark
        return exp.Column(this=exp.Identifier(this=name, quoted=True))

    @property
    def _next(self) -> int:
        return len(self.scope.types)

    # --- EXISTS and IN --------------------------------------------------------------------------------------------

    def _exists(self, part: exp.Exists, place: Span, negated: bool) -> Mark:
        query = part.this
        opened = self._opened(query)
        if opened is not None:
            return Mark(self._next, place, opened.base, opened.found, opened.shift, negated)
        relation = self._alone(query)
        if is_aggregate(relation.node):
            raise self.source.error(
                place, "EXISTS over an aggregate without GROUP BY", "an aggregate always has a row; write a comparison"
            )
        return Mark(self._next, place, Base(relation.node, {}), negated=negated)

    def _in(self, part: exp.In, place: Span, negated: bool) -> Mark:
        query = part.args["query"]
        if isinstance(part.this, exp.Tuple):
            raise self.source.error(
                place,
                "IN compares one value with a subquery, not several",
                "write EXISTS (SELECT ... WHERE a = b AND c = d)",
            )
        x = resolve(self.scope, part.this)
        opened = self._opened(query)
        if opened is None:
            relation = self._alone(query)
            self._one_column(query, len(relation.names))
            span = place_of(self.source, query)
            y, base, shift = Term(self.source, span, (Ref(span, 0),)), Base(relation.node, {0: 0}), 1
            found: list[Conjunct] = []
        else:
            self._one_column(query, len(opened.items))
            y, base, found, shift = opened.items[0], opened.base, opened.found, opened.shift

        def key(left: Base, right: Base) -> tuple[Expr, Expr]:
            one, other = typed(shifted(x, shift), left.types, left.place), typed(y, right.types, right.place)
            pair = common(one, other)
            if pair is None:
                message = f"IN compares {one.type} with the subquery's {other.type}"
                raise self.source.error(place, message, "convert one side with CAST(... AS ...)")
            return pair

        return InMark(self._next, place, base, found, shift, negated, key)

    def _opened(self, query: exp.Expr) -> Opened | None:
        while isinstance(query, exp.Subquery) and not query.args.get("with_"):
            query = query.this
        return self.open_select(query, self.scope) if isinstance(query, exp.Select) else None

    def _one_column(self, query: exp.Expr, count: int) -> None:
        if count != 1:
            raise self.source.error(
                place_of(self.source, query), f"a subquery here needs one column, it has {count}", "select one column"
            )

    # --- sub-queries that stand by themselves ------------------------------------------------------------------------

    def _scalar(self, part: exp.Subquery, place: Span) -> ScalarMark:
        relation = self._alone(part)
        self._one_column(part, len(relation.names))
        node = relation.node if relation.node.has_one_row() else SingleRow(relation.node, self.source.slice(place))
        row = row_over_nothing(relation.node)
        return ScalarMark(self._next, place, Base(node, {0: 0}), empty=None if row is None else row[0])

    def _alone(self, query: exp.Expr) -> Relation:
        try:
            return self.bind_body(self.catalog, query)
        except (CqlError, CqlErrors):
            self._refuse_outer_columns(query)
            raise

    def _refuse_outer_columns(self, query: exp.Expr) -> None:
        """Raises if the sub-query names an input of the outer query, which explains its errors."""
        own = {(t.alias or t.name).lower() for t in query.find_all(exp.Table)}
        outer = {i.alias.lower() for i in self.scope.inputs if i.alias} - own
        for column in query.find_all(exp.Column):
            if column.table and column.table.lower() in outer:
                raise self.source.error(
                    place_of(self.source, column),
                    f"this subquery cannot read {column.table} of the outer query",
                    "join with a subquery in FROM that is grouped by the column to compare with; "
                    "EXISTS and IN with a plain SELECT may read the outer query",
                )


def _topmost(node: exp.Expr) -> Iterator[tuple[exp.Expr, Span, bool]]:
    """Yields the outermost sub-queries of an expression with their places, and whether a NOT belongs to each."""
    for part in node.walk(prune=_is_subquery):
        if not _is_subquery(part):
            continue
        parent = part.parent
        place = span_of(part)
        negated = part is not node and isinstance(parent, exp.Not) and not isinstance(part, exp.Subquery)
        if negated and parent is not None and span_of(parent) is not None:
            yield part, span_of(parent) or (0, 1), True
        else:
            yield part, place or (0, 1), False


def _is_subquery(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Exists) or (isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query))

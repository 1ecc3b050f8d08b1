"""Binds one SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT.

Invariant: the result is a relation with unique names, and all errors of one list of clauses are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from kigen.language.app_text import Span
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.aggregates import Grouping
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.clauses import refuse_clauses
from kigen.plan.binder.error_collector import ErrorCollector
from kigen.plan.binder.expressions.binding import AGGREGATES, check_scalar, place_of, predicate, resolve, typed
from kigen.plan.binder.expressions.duckdb_types import label
from kigen.plan.binder.expressions.terms import Ref, Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct, conjuncts
from kigen.plan.binder.from_clause.inputs import FromBinder
from kigen.plan.binder.from_clause.joins import column_of, filtered, join_inputs
from kigen.plan.binder.outputs import project, unique
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.binder.subqueries.binding import BindBody, Subqueries
from kigen.plan.binder.subqueries.marks import ScalarMark
from kigen.plan.binder.subqueries.scopes import CorrelatedScope
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Distinct, Expr, Filter, PlanNode


@dataclass
class _Item:
    """A select item: an expression, or one of the columns that * stands for."""

    node: exp.Expr | None
    span: Span
    name: str | None
    position: int | None = None


@dataclass(frozen=True)
class Opened:
    """FROM and WHERE of a sub-query that may read the outer query: its rows, the conditions that connect them with the
    outer query (whose positions are moved by `shift`), and its items."""

    base: Base
    found: list[Conjunct]
    shift: int
    items: list[Term]


class SelectBinder:
    def __init__(
        self, catalog: Catalog, bind_body: Callable[[Catalog, exp.Expr], Relation], select: exp.Select
    ) -> None:
        self.catalog, self.select, self.source = catalog, select, catalog.source
        self.sources = FromBinder(catalog, bind_body)
        self.scope = self.sources.scope
        self.subqueries = Subqueries(catalog, bind_body, partial(open_select, catalog, bind_body), self.scope)
        self.errors = ErrorCollector()

    def bind(self) -> Relation:
        self._begin()
        self.aliases = self._plain_aliases()
        base = self._where()
        if self._is_aggregate():
            self._refuse_subqueries()
            node, exprs = self._aggregate(base)
        else:
            base = self._attached(base, self._item_marks())
            node, exprs = base.node, self._terms(base)
        self.errors.raise_any()
        names = unique([self._name(item) for item in self.items])
        result = project(node, exprs, names)
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.source.error(
                place_of(self.source, distinct), "DISTINCT ON is not part of CQL", "write SELECT DISTINCT, or GROUP BY"
            )
        return Relation(Distinct(result), names) if distinct is not None else Relation(result, names)

    def opened(self, outer: Scope) -> Opened:
        """Binds a plain SELECT that may read columns of an outer query."""
        self._begin()
        where = self.select.args.get("where")
        condition = None if where is None else self.subqueries.replaced(where.this)
        scope = CorrelatedScope(self.scope, outer)
        found: list[Conjunct] = []
        if condition is not None:
            term = resolve(scope, condition, clause="WHERE")
            predicate(term, scope.types, "WHERE")
            found = conjuncts(condition, term, scope.types, "WHERE")
        own = [c for c in found if all(p < scope.shift for p in c.positions())]
        marks = frozenset(p for c in found if c not in own for p in c.positions()) & self.subqueries.marks.keys()
        base = self._attached(self._filtered(own), [*marks, *self._item_marks()])
        items = [self._inner_item(scope, item) for item in self.items]
        return Opened(base, [c for c in found if c not in own], scope.shift, items)

    def _inner_item(self, scope: CorrelatedScope, item: _Item) -> Term:
        if item.node is None:
            return Term(self.source, item.span, (Ref(item.span, item.position or 0),))
        term = resolve(scope, item.node)
        if any(p >= scope.shift for p in term.positions()):
            raise self.source.error(
                item.span, "an item of this subquery reads the outer query", "write the condition in its WHERE"
            )
        return term

    def _begin(self) -> None:
        """Binds FROM and expands the select list."""
        refuse_clauses(self.catalog, self.select)
        if self.select.args.get("from_") is None:
            raise self.source.error(
                place_of(self.source, self.select), "a query needs FROM", "write SELECT ... FROM stream [window]"
            )
        self.sources.bind(self.select)
        with self.errors.collect():
            self.items = self._expand()
        self.errors.raise_any()
        for item in self.items:
            with self.errors.collect():
                if item.node is not None:
                    item.node = self.subqueries.replaced(item.node)
        self.errors.raise_any()

    # --- the select list ------------------------------------------------------------------------------------------

    def _expand(self) -> list[_Item]:
        items: list[_Item] = []
        for node in self.select.expressions:
            span = place_of(self.source, node)
            inner = node.this if isinstance(node, exp.Alias) else node
            star = inner if isinstance(inner, exp.Star) else inner.this if isinstance(inner, exp.Column) else None
            if isinstance(star, exp.Star):
                if any(star.args.get(k) for k in ("except_", "replace", "rename")) or isinstance(node, exp.Alias):
                    raise self.source.error(span, "* takes no alias and no modifiers in CQL", "list the columns")
                table = inner.args.get("table") if isinstance(inner, exp.Column) else None
                items += [_Item(None, span, name, position) for position, name in self.scope.star(table)]
            else:
                items.append(_Item(inner, span, node.alias if isinstance(node, exp.Alias) else None))
        return items

    def _plain_aliases(self) -> dict[str, Term]:
        """Returns the items without aggregates, by alias, as terms over the scope. WHERE, GROUP BY and later items may
        use them."""
        found: dict[str, Term] = {}
        for item in self.items:
            if item.name and item.node is not None and not item.node.find(*AGGREGATES):
                with suppress(CqlError, CqlErrors):  # the item itself reports it
                    found.setdefault(item.name.lower(), resolve(self.scope, item.node, found))
        return found

    def _terms(self, base: Base) -> list[Expr]:
        exprs: list[Expr] = []
        earlier: dict[str, Term] = {}
        for item in self.items:
            with self.errors.collect():
                if item.node is None:
                    exprs.append(bare(base.node.schema, base.place(item.position or 0)))
                    continue
                term = resolve(self.scope, item.node, earlier)
                exprs.append(typed(term, base.types, base.place))
                if item.name:
                    earlier.setdefault(item.name.lower(), term)
        return exprs

    def _name(self, item: _Item) -> str:
        if item.name is not None:
            return item.name
        node = item.node
        if isinstance(node, exp.Column):
            position = self.scope.find(node)
            if position in self.subqueries.marks:
                return self.source.slice(item.span)
            return node.name if position is None else self.scope.names[position]
        text = self.source.slice(item.span)
        return label(text, self.scope.tables()) or text

    # --- clauses --------------------------------------------------------------------------------------------------

    def _where(self) -> Base:
        where = self.select.args.get("where")
        if where is None:
            return self._joined(self.sources.conjuncts)
        with self.errors.collect():
            condition = self.subqueries.replaced(where.this)
            check_scalar(self.source, condition, "WHERE")
            term = resolve(self.scope, condition, self.aliases, clause="WHERE")
            predicate(term, self.scope.types, "WHERE")
            if len(self.sources.leaves) == 1 and not term.positions() & self.subqueries.marks.keys():
                return filtered(self._joined([]), [(term, "WHERE")])
            return self._filtered(conjuncts(condition, term, self.scope.types, "WHERE"))
        return self._joined(self.sources.conjuncts)  # continue, to find more errors

    def _filtered(self, found: list[Conjunct]) -> Base:
        """Returns the joined inputs for which all conditions are true. Conditions that read sub-queries come last."""
        marks = self.subqueries.marks
        later = [c for c in found if c.positions() & marks.keys()]
        base = self._joined(self.sources.conjuncts + [c for c in found if c not in later])
        tests: list[tuple[Term, str]] = []
        for conjunct in later:
            assert conjunct.term is not None, "USING reads no sub-query"
            mark = marks.get(-1 if (alone := column_of(conjunct.term)) is None else alone)
            if mark is None or isinstance(mark, ScalarMark):
                tests.append((conjunct.term, conjunct.clause))
            else:
                base = mark.kept(base)
        used = frozenset[int]().union(*(term.positions() for term, _ in tests))
        return filtered(self._attached(base, [p for p in marks if p in used]), tests)

    def _attached(self, base: Base, positions: Iterable[int]) -> Base:
        """Adds the values of sub-queries as columns, except those that are there already."""
        for position in sorted(set(positions) - base.places.keys()):
            base = self.subqueries.marks[position].attached(base)
        return base

    def _item_marks(self) -> list[int]:
        """Returns the positions of sub-queries in the select list."""
        columns = [c for item in self.items if item.node is not None for c in item.node.find_all(exp.Column)]
        return [p for c in columns if not c.table and (p := self.scope.find(c)) in self.subqueries.marks and p is not None]

    def _refuse_subqueries(self) -> None:
        if self._item_marks():
            raise self.source.error(
                self.subqueries.marks[self._item_marks()[0]].place,
                "a subquery cannot be among the items of an aggregate",
                "compute the aggregate in a subquery in FROM, and use the other one outside",
            )

    def _joined(self, found: list[Conjunct]) -> Base:
        return join_inputs(self.sources.leaves, self.scope.types, found, self.catalog.rates)

    def _is_aggregate(self) -> bool:
        if self.select.args.get("group") or self.select.args.get("having"):
            return True
        return any(item.node is not None and item.node.find(*AGGREGATES) for item in self.items)

    def _aggregate(self, base: Base) -> tuple[PlanNode, list[Expr]]:
        keys: list[Term] = []
        for node in self._group_nodes():
            with self.errors.collect():
                keys.append(self._key(node))
        self.errors.raise_any()
        grouping = Grouping(self.scope, base, keys, self.aliases)
        terms: list[Term | int] = []
        aliases: dict[str, Term] = {}
        for item in self.items:
            with self.errors.collect():
                terms.append(self._item_term(grouping, item, aliases))
        having = self.select.args.get("having")
        condition: Term | None = None
        if having is not None:
            with self.errors.collect():
                condition = grouping.term(having.this, aliases, "HAVING")
        self.errors.raise_any()
        return self._above(grouping, terms, condition)

    def _item_term(self, grouping: Grouping, item: _Item, aliases: dict[str, Term]) -> Term | int:
        if item.node is None:
            column = grouping.column(item.position or 0)
            if column < 0:
                raise grouping.ungrouped(item.name or "*", item.span)
            return column
        term = grouping.term(item.node, aliases, "SELECT")
        if item.name:
            aliases.setdefault(item.name.lower(), term)
        return term

    def _above(
        self, grouping: Grouping, terms: list[Term | int], condition: Term | None
    ) -> tuple[PlanNode, list[Expr]]:
        node = grouping.node()
        types = tuple(c.type for c in node.schema)
        if condition is not None:
            with self.errors.collect():
                node = Filter(node, predicate(condition, types, "HAVING"))
        exprs: list[Expr] = []
        for term in terms:
            with self.errors.collect():
                exprs.append(bare(node.schema, term) if isinstance(term, int) else typed(term, types))
        return node, exprs

    def _group_nodes(self) -> list[exp.Expr]:
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            return [i.node for i in self.items if i.node is not None and not i.node.find(*AGGREGATES)]
        for arg in (exp.GroupingSets, exp.Cube, exp.Rollup):
            if group.find(arg):
                raise self.source.error(
                    place_of(self.source, group),
                    f"{arg.__name__.upper()} is not part of CQL",
                    "combine two queries with UNION ALL",
                )
        nodes: list[exp.Expr] = group.expressions
        return nodes

    def _key(self, node: exp.Expr) -> Term:
        if isinstance(node, exp.Literal) and not node.is_string:
            span, at = place_of(self.source, node), int(node.name) if node.name.isdigit() else 0
            if not 1 <= at <= len(self.items):
                raise self.source.error(
                    span,
                    f"GROUP BY {node.name} is not an item of the SELECT list",
                    f"write a number from 1 to {len(self.items)}, or a column",
                )
            item = self.items[at - 1]
            if item.node is None:
                raise self.source.error(
                    span, "GROUP BY with a number cannot refer to a column of *", "write the column's name"
                )
            node = item.node
        if isinstance(node, exp.Column) and not node.args.get("table") and self.scope.find(node) is None:
            named = [i for i in self.items if i.name and i.name.lower() == node.name.lower() and i.node is not None]
            if named and named[0].node is not None and named[0].node.find(*AGGREGATES):
                hint = "compute it in a subquery in FROM and group by it outside"
                raise self.source.error(
                    place_of(self.source, node), f"{node.name} is an aggregate and cannot be grouped by", hint
                )
        return resolve(self.scope, node, self.aliases, clause="GROUP BY")


_NOT_PLAIN = ("with_", "group", "having", "limit", "offset", "order", "qualify", "windows")


def open_select(catalog: Catalog, bind_body: BindBody, select: exp.Select, outer: Scope) -> Opened | None:
    """Binds a sub-query that may read the outer query; None if it is more than a plain SELECT."""
    distinct = select.args.get("distinct")
    if any(select.args.get(clause) for clause in _NOT_PLAIN) or select.args.get("from_") is None:
        return None
    if (distinct is not None and distinct.args.get("on")) or _aggregates(select):
        return None
    return SelectBinder(catalog, bind_body, select).opened(outer)


def _aggregates(select: exp.Select) -> bool:
    """Returns whether an item holds an aggregate, or a function over a window, outside of sub-queries."""
    return any(
        isinstance(part, (*AGGREGATES, exp.AggFunc, exp.Window))
        for item in select.expressions
        for part in item.walk(prune=lambda node: isinstance(node, exp.Query))
        if not isinstance(part, exp.Query)
    )

"""Binds one SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT.

Invariant: the result is a relation with unique names, and all errors of one list of clauses are reported together.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from kigen.language.app_text import Span
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.aggregates import Grouping
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.clauses import refuse_clauses
from kigen.plan.binder.expressions.binding import AGGREGATES, check_scalar, place_of, predicate, resolve, typed
from kigen.plan.binder.expressions.duckdb_types import label
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.from_clause.conjuncts import Base, conjuncts
from kigen.plan.binder.from_clause.joins import filtered
from kigen.plan.binder.from_clause.window_bounds import bind_window_bounds, shown
from kigen.plan.binder.outputs import project, unique
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.binder.subqueries.binding import BindBody
from kigen.plan.binder.subqueries.opening import Opened, is_plain, opened
from kigen.plan.binder.subqueries.rows import RowsBinder
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Distinct, Expr, Filter, PlanNode


@dataclass
class _Item:
    """A select item: an expression, or one of the columns that * stands for."""

    node: exp.Expr | None
    span: Span
    name: str | None
    position: int | None = None


class SelectBinder(RowsBinder):
    def __init__(self, catalog: Catalog, bind_body: BindBody, select: exp.Select) -> None:
        super().__init__(catalog, bind_body, partial(open_select, catalog, bind_body))
        self.select = select

    def bind(self) -> Relation:
        self.begin()
        self.aliases = self._plain_aliases()
        base = self._where()
        if self._is_aggregate():
            self.refuse_subqueries(self._item_nodes())
            node, exprs = self._aggregate(base)
        else:
            base = self.attached(base, self.item_marks(self._item_nodes()))
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

    def begin(self) -> None:
        """Binds FROM and expands the select list."""
        refuse_clauses(self.catalog, self.select)
        if self.select.args.get("from_") is None:
            raise self.source.error(
                place_of(self.source, self.select), "a query needs FROM", "write SELECT ... FROM stream [window]"
            )
        bind_window_bounds(self.source, self.select)
        self.sources.bind(self.select)
        with self.errors.collect():
            self.items = self._expand()
        self.errors.raise_any()
        for item in self.items:
            with self.errors.collect():
                if item.node is not None:
                    item.node = self.subqueries.replaced(item.node)
        self.errors.raise_any()

    def _item_nodes(self) -> list[exp.Expr]:
        return [item.node for item in self.items if item.node is not None]

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
            return shown(node.name if position is None else self.scope.names[position])
        text = self.source.slice(item.span)
        return label(text, self.scope.tables()) or text

    # --- clauses --------------------------------------------------------------------------------------------------

    def _where(self) -> Base:
        where = self.select.args.get("where")
        if where is None:
            return self.joined(self.sources.conjuncts)
        with self.errors.collect():
            condition = self.subqueries.replaced(where.this)
            check_scalar(self.source, condition, "WHERE")
            term = resolve(self.scope, condition, self.aliases, clause="WHERE")
            predicate(term, self.scope.types, "WHERE")
            if len(self.sources.leaves) == 1 and not term.positions() & self.subqueries.marks.keys():
                return filtered(self.joined([]), [(term, "WHERE")])
            return self.filtered(conjuncts(condition, term, self.scope.types, "WHERE"))
        return self.joined(self.sources.conjuncts)  # continue, to find more errors

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


def open_select(catalog: Catalog, bind_body: BindBody, select: exp.Select, outer: Scope) -> Opened | None:
    """Binds a sub-query that may read the outer query; None if it is more than a plain SELECT."""
    if not is_plain(select):
        return None
    binder = SelectBinder(catalog, bind_body, select)
    binder.begin()
    return opened(binder, select, [(item.node, item.position or 0, item.span) for item in binder.items], outer)

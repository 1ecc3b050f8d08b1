"""Binds one SELECT: FROM, WHERE, GROUP BY, HAVING, functions with OVER, QUALIFY, the select list, DISTINCT.

Invariant: the result is a relation with unique names, and all errors of one list of clauses are reported together.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from sqlglot import exp

from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.clauses import refuse_clauses
from kigen.plan.binder.expressions.binding import AGGREGATES, check_scalar, place_of, predicate, resolve, typed
from kigen.plan.binder.expressions.duckdb_types import label
from kigen.plan.binder.expressions.terms import FIRST_CALL, Term
from kigen.plan.binder.from_clause.conjuncts import Base, conjuncts
from kigen.plan.binder.from_clause.joins import filtered
from kigen.plan.binder.from_clause.window_bounds import bind_window_bounds, shown
from kigen.plan.binder.grouping.aggregates import Grouping
from kigen.plan.binder.grouping.group_keys import group_key, group_nodes
from kigen.plan.binder.grouping.grouping_sets import has_sets, sets_of
from kigen.plan.binder.order import first_of_groups
from kigen.plan.binder.outputs import Item, project, unique
from kigen.plan.binder.over.calls import OverCalls, reads_calls
from kigen.plan.binder.over.qualify import Output, no_function, refuse_early, takes_first_rows
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.binder.subqueries.binding import BindBody
from kigen.plan.binder.subqueries.opening import Opened, is_plain, opened
from kigen.plan.binder.subqueries.rows import RowsBinder
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Distinct, Expr, Filter, PlanNode


class SelectBinder(RowsBinder):
    def __init__(self, catalog: Catalog, bind_body: BindBody, select: exp.Select) -> None:
        super().__init__(catalog, bind_body, partial(open_select, catalog, bind_body))
        self.select = select
        self.over = OverCalls(self.source)
        self.qualify: exp.Expr | None = None  # a condition that is tested after the functions with OVER

    def bind(self) -> Relation:
        self.begin()
        names = unique([self._name(item) for item in self.items])
        first_rows = self._open_qualify(names)
        self.aliases = self._plain_aliases()
        base = self._where()
        if self._is_aggregate():
            self.refuse_subqueries(self._expressions())
            node, exprs = self._aggregate(base)
        else:
            node, exprs = self._rows(self.attached(base, self.item_marks(self._expressions())))
        self.errors.raise_any()
        result = project(node, exprs, names)
        if first_rows:
            return first_of_groups(self.source, self.select, Relation(result, names))
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
                    item.node = self.over.replaced(self.subqueries.replaced(item.node))
        self.errors.raise_any()

    def _expressions(self) -> list[exp.Expr]:
        """Returns all items, what is inside of OVER, and QUALIFY."""
        items = [item.node for item in self.items if item.node is not None]
        return [*items, *self.over.nodes, *([] if self.qualify is None else [self.qualify])]

    # --- functions with OVER ----------------------------------------------------------------------------------------

    def _open_qualify(self, names: tuple[str, ...]) -> bool:
        """Finds the functions in QUALIFY. Returns whether it only takes the first rows of each group."""
        outputs = [Output(name, item.node, item.position) for name, item in zip(names, self.items, strict=True)]
        refuse_early(self.scope, self.select, outputs)
        clause = self.select.args.get("qualify")
        if clause is None:
            return False
        plain = not self.over.nodes and self.select.args.get("distinct") is None
        if plain and takes_first_rows(self.scope, clause.this, outputs):
            return True
        self.qualify = self.over.replaced(self.subqueries.replaced(clause.this))
        if not self.over.nodes:
            raise no_function(self.source, clause.this)
        return False

    def _rows(self, base: Base) -> tuple[PlanNode, list[Expr]]:
        """Returns the rows of a SELECT without aggregates, and its items."""
        if self.over.nodes:
            with self.errors.collect():
                self.over.resolve(lambda node: resolve(self.scope, node, self.aliases, clause="OVER"))
                base = self.over.attached(base, [base.place(p) for p in self.scope.positions()])
            self.errors.raise_any()
        exprs, aliases = self._terms(base)
        if self.qualify is None:
            return base.node, exprs
        return self._qualified(base, resolve(self.scope, self.qualify, aliases, clause="QUALIFY")), exprs

    def _qualified(self, base: Base, condition: Term) -> PlanNode:
        return Filter(base.node, predicate(condition, base.types, "QUALIFY", base.place))

    # --- the select list ------------------------------------------------------------------------------------------

    def _expand(self) -> list[Item]:
        items: list[Item] = []
        for node in self.select.expressions:
            span = place_of(self.source, node)
            inner = node.this if isinstance(node, exp.Alias) else node
            star = inner if isinstance(inner, exp.Star) else inner.this if isinstance(inner, exp.Column) else None
            if isinstance(star, exp.Star):
                if any(star.args.get(k) for k in ("except_", "replace", "rename")) or isinstance(node, exp.Alias):
                    raise self.source.error(span, "* takes no alias and no modifiers in CQL", "list the columns")
                table = inner.args.get("table") if isinstance(inner, exp.Column) else None
                items += [Item(None, span, name, position) for position, name in self.scope.star(table)]
            else:
                items.append(Item(inner, span, node.alias if isinstance(node, exp.Alias) else None))
        return items

    def _plain_aliases(self) -> dict[str, Term]:
        """Returns the items without aggregates, by alias, as terms over the scope. WHERE, GROUP BY and later items may
        use them."""
        found: dict[str, Term] = {}
        for item in self.items:
            if item.name and item.node is not None and not item.node.find(*AGGREGATES) and not reads_calls(item.node):
                with suppress(CqlError, CqlErrors):  # the item itself reports it
                    found.setdefault(item.name.lower(), resolve(self.scope, item.node, found))
        return found

    def _terms(self, base: Base) -> tuple[list[Expr], dict[str, Term]]:
        """Returns the items, and their terms by alias."""
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
        return exprs, earlier

    def _name(self, item: Item) -> str:
        if item.name is not None:
            return item.name
        node = item.node
        if isinstance(node, exp.Column) and not reads_calls(node):
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
        return any(node.find(*AGGREGATES) for node in self._expressions())

    def _aggregate(self, base: Base) -> tuple[PlanNode, list[Expr]]:
        nodes = group_nodes(self.source, self.select, self.items)
        sets: list[list[Term]] = []
        for wanted in sets_of(nodes):
            sets.append([])
            for node in wanted:
                with self.errors.collect():
                    sets[-1].append(group_key(self.scope, self.items, self.aliases, node))
        self.errors.raise_any()
        keys = [key for each in sets for key in each]
        grouping = Grouping(self.scope, base, keys, self.aliases, sets if has_sets(nodes) else None)
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
        plain = {name: term for name, term in aliases.items() if all(p < FIRST_CALL for p in term.positions())}
        qualify: Term | None = None
        with self.errors.collect():
            self.over.resolve(lambda node: grouping.term(node, plain, "OVER"))
            qualify = None if self.qualify is None else grouping.term(self.qualify, aliases, "QUALIFY")
        self.errors.raise_any()
        return self._above(grouping, terms, condition, qualify)

    def _item_term(self, grouping: Grouping, item: Item, aliases: dict[str, Term]) -> Term | int:
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
        self, grouping: Grouping, terms: list[Term | int], condition: Term | None, qualify: Term | None
    ) -> tuple[PlanNode, list[Expr]]:
        node = grouping.node()
        types = tuple(c.type for c in node.schema)
        if condition is not None:
            with self.errors.collect():
                node = Filter(node, predicate(condition, types, "HAVING"))
        base = Base(node, {i: i for i in range(len(types))})
        if self.over.nodes:
            with self.errors.collect():
                base = self.over.attached(base, range(len(types)), different=grouping.sets is None)
            self.errors.raise_any()
        exprs: list[Expr] = []
        for term in terms:
            with self.errors.collect():
                exprs.append(bare(node.schema, term) if isinstance(term, int) else typed(term, base.types, base.place))
        return base.node if qualify is None else self._qualified(base, qualify), exprs


def open_select(catalog: Catalog, bind_body: BindBody, select: exp.Select, outer: Scope) -> Opened | None:
    """Binds a sub-query that may read the outer query; None if it is more than a plain SELECT."""
    if not is_plain(select):
        return None
    binder = SelectBinder(catalog, bind_body, select)
    binder.begin()
    return opened(binder, select, [(item.node, item.position or 0, item.span) for item in binder.items], outer)

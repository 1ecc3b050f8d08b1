"""Opens a plain SELECT of EXISTS or IN: its rows, and the conditions that connect them with the outer query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Span
from kigen.plan.binder.expressions.binding import AGGREGATES, predicate, resolve
from kigen.plan.binder.expressions.terms import Ref, Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct, conjuncts
from kigen.plan.binder.scope import Scope
from kigen.plan.binder.subqueries.rows import RowsBinder
from kigen.plan.binder.subqueries.scopes import CorrelatedScope

_NOT_PLAIN = ("with_", "group", "having", "limit", "offset", "order", "qualify", "windows")
Item = tuple[exp.Expr | None, int, Span]  # an expression, or the position of a column


@dataclass(frozen=True)
class Opened:
    """FROM and WHERE of a sub-query that may read the outer query: its rows, the conditions that connect them with the
    outer query (whose positions are moved by `shift`), and its items."""

    base: Base
    found: list[Conjunct]
    shift: int
    items: list[Term]


def opened(binder: RowsBinder, select: exp.Select, items: Sequence[Item], outer: Scope) -> Opened:
    """Binds WHERE and the items of a plain SELECT whose FROM is bound. It may read columns of an outer query."""
    where = select.args.get("where")
    condition = None if where is None else binder.subqueries.replaced(where.this)
    scope = CorrelatedScope(binder.scope, outer)
    found: list[Conjunct] = []
    if condition is not None:
        term = resolve(scope, condition, clause="WHERE")
        predicate(term, scope.types, "WHERE")
        found = conjuncts(condition, term, scope.types, "WHERE")
    own = [c for c in found if all(p < scope.shift for p in c.positions())]
    across = [c for c in found if c not in own]
    marks = frozenset(p for c in across for p in c.positions()) & binder.subqueries.marks.keys()
    of_items = binder.item_marks([node for node, _, _ in items if node is not None])
    base = binder.attached(binder.filtered(own), [*marks, *of_items])
    return Opened(base, across, scope.shift, [_item(scope, item) for item in items])


def _item(scope: CorrelatedScope, item: Item) -> Term:
    node, position, span = item
    if node is None:
        return Term(scope.source, span, (Ref(span, position),))
    term = resolve(scope, node)
    if any(p >= scope.shift for p in term.positions()):
        raise scope.source.error(
            span, "an item of this subquery reads the outer query", "write the condition in its WHERE"
        )
    return term


def is_plain(select: exp.Select) -> bool:
    """Returns whether the rows of a SELECT are those of its FROM and WHERE."""
    distinct = select.args.get("distinct")
    if any(select.args.get(clause) for clause in _NOT_PLAIN) or select.args.get("from_") is None:
        return False
    return not (distinct is not None and distinct.args.get("on")) and not _aggregates(select)


def _aggregates(select: exp.Select) -> bool:
    """Returns whether an item holds an aggregate, or a function over a window, outside of sub-queries."""
    return any(
        isinstance(part, (*AGGREGATES, exp.AggFunc, exp.Window))
        for item in select.expressions
        for part in item.walk(prune=lambda node: isinstance(node, exp.Query))
        if not isinstance(part, exp.Query)
    )

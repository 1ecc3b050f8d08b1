"""Binds GROUP BY and aggregates: the columns below the Aggregate, the Aggregate itself, and the terms above it.

Select items and HAVING become terms over the columns of the Aggregate. Invariant: those columns are the keys, then the
aggregates; an expression that is not made of them is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from kigen.language.app_text import span_of
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.expressions.binding import AGGREGATES, check_scalar, place_of, resolve, typed
from kigen.plan.binder.expressions.terms import Ref, Term, position_of_call, same
from kigen.plan.binder.from_clause.conjuncts import Base
from kigen.plan.binder.from_clause.window_bounds import shown
from kigen.plan.binder.grouping.aggregate_calls import Call, CallBinder
from kigen.plan.binder.grouping.grouping_sets import Mark, united
from kigen.plan.binder.over.calls import reads_calls
from kigen.plan.binder.scope import Scope
from kigen.plan.logical import Aggregate, Expr, PlanNode, Project, Window


class Grouping:
    """Collects the aggregates of one SELECT while its items are bound; `node` then returns the plan."""

    def __init__(
        self,
        scope: Scope,
        base: Base,
        keys: list[Term],
        aliases: Mapping[str, Term],
        sets: list[list[Term]] | None = None,
    ) -> None:
        """Takes all keys, and with GROUPING SETS, ROLLUP or CUBE also those of each set."""
        self.scope, self.base = scope, base
        self._calls = CallBinder(scope, base, aliases)
        self.keys: list[Expr] = []
        self.key_of: dict[str, int] = {}
        for term in keys:
            text = same(term.sql(base.place).text)
            if text not in self.key_of:
                self.key_of[text] = len(self.keys)
                self.keys.append(typed(term, base.types, base.place))
        self.aggs: list[Call | Mark] = []
        self.sets = None if sets is None else [self._places(terms) for terms in sets]

    def _places(self, terms: list[Term]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.key_of[same(term.sql(self.base.place).text)] for term in terms))

    # --- terms over the Aggregate's columns -----------------------------------------------------------------------

    def term(self, node: exp.Expr, aliases: Mapping[str, Term], clause: str) -> Term:
        check_scalar(self.scope.source, node, clause, aggregates=True)
        refs = self._refs(node, aliases, clause)
        return Term(self.scope.source, place_of(self.scope.source, node), tuple(sorted(refs, key=lambda r: r.span)))

    def column(self, position: int) -> int:
        """Returns the key that is just this column of the scope; -1 if there is none."""
        return self.key_of.get(f"c{self.base.place(position)}", -1)

    def _refs(self, node: exp.Expr, aliases: Mapping[str, Term], clause: str) -> list[Ref]:
        if isinstance(node, exp.Grouping):
            return [Ref(place_of(self.scope.source, node), len(self.keys) + self._added(self._mark(node)))]
        if isinstance(node, (*AGGREGATES, exp.Filter)):
            return [Ref(place_of(self.scope.source, node), len(self.keys) + self._aggregate(node))]
        key = self._key(node)
        if key is not None:
            return [key]
        if isinstance(node, exp.Column):
            return [self._column(node, aliases, clause)]
        return [ref for child in node.iter_expressions() for ref in self._refs(child, aliases, clause)]

    def _key(self, node: exp.Expr) -> Ref | None:
        span = span_of(node)
        if span is None or not self.keys or node.find(*AGGREGATES) or reads_calls(node):
            return None
        try:
            text = same(resolve(self.scope, node).sql(self.base.place).text)
        except (CqlError, CqlErrors):
            return None  # a name inside is an alias, or unknown: `_refs` finds it there
        return Ref(span, self.key_of[text]) if text in self.key_of else None

    def _column(self, column: exp.Column, aliases: Mapping[str, Term], clause: str) -> Ref:
        span = place_of(self.scope.source, column)
        call = position_of_call(column.name)
        if call is not None:
            return Ref(span, call)
        position = self.scope.find(column)
        alias = None if column.args.get("table") else aliases.get(column.name.lower())
        if alias is not None and (position is None or clause == "HAVING"):
            return Ref(span, alias)
        if position is None:
            raise self.scope.unknown(column, tuple(aliases))
        raise self.ungrouped(column.name, span)

    def ungrouped(self, name: str, span: tuple[int, int]) -> CqlError:
        name = shown(name)
        hint = (
            f"write GROUP BY {name}, or an aggregate as in MAX({name})"
            if not self.keys
            else f"add {name} to GROUP BY, or write MAX({name})"
        )
        return self.scope.source.error(span, f"column {name} is neither in GROUP BY nor inside an aggregate", hint)

    def _aggregate(self, node: exp.Expr) -> int:
        return self._added(self._calls.bind(node))

    def _added(self, call: Call | Mark) -> int:
        if call not in self.aggs:
            self.aggs.append(call)
        return self.aggs.index(call)

    def _mark(self, node: exp.Grouping) -> Mark:
        """Binds GROUPING(key, ...)."""
        found: list[int] = []
        for part in node.expressions:
            key = self._key(part)
            if key is None or not isinstance(key.target, int):
                hint = "write a key of GROUP BY in it"
                span = place_of(self.scope.source, part)
                raise self.scope.source.error(span, "GROUPING takes keys of GROUP BY", hint)
            found.append(key.target)
        return Mark(tuple(found))

    # --- the plan -------------------------------------------------------------------------------------------------

    def node(self) -> PlanNode:
        calls = [call for call in self.aggs if isinstance(call, Call)]
        wanted = [*self.keys, *(expr for call in calls for expr in call.exprs)]
        columns = list(dict.fromkeys(wanted))
        child, at = self.base.node, {e: e.column for e in columns if e.column is not None}
        if len(at) < len(columns):
            child = Project(self.base.node, tuple(columns), tuple(e.text for e in columns))
            at = {e: i for i, e in enumerate(columns)}
        keys = tuple(at[e] for e in self.keys)
        aggs = tuple(call.placed(at) for call in calls)
        sets = self.sets or [tuple(range(len(keys)))]
        here = windows(self.base.node)
        made = [Aggregate(child, tuple(keys[i] for i in given), aggs, () if given else here) for given in sets]
        return (
            made[0] if self.sets is None and len(calls) == len(self.aggs) else united(sets, made, self.keys, self.aggs)
        )


def windows(node: PlanNode) -> tuple[Window, ...]:
    """Returns the windowed streams that a relation is made of, each once. A window over another query's stream hides
    the windows below that stream."""
    if isinstance(node, Window):
        return (node,)
    return tuple(dict.fromkeys(w for child in node.children for w in windows(child)))

"""Binds the inputs of FROM in order, and the conditions of ON and USING as conjuncts.

Invariant: every input is windowed or a relation; the conditions of a JOIN see only the inputs of its own
comma-separated group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Source, Span, span_of
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.catalog import AlreadyReported, Catalog
from kigen.plan.binder.expressions.binding import place_of, predicate, resolve
from kigen.plan.binder.expressions.duckdb_types import Types
from kigen.plan.binder.expressions.terms import Ref, Term
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.expressions.raising import may_raise

BindBody = Callable[[Catalog, exp.Expr], Relation]


@dataclass(frozen=True)
class Conjunct:
    """One condition of WHERE, ON or USING. The `sides` of an equality may become join keys. A `safe` condition cannot
    raise on any row (kigen.plan.expressions.raising), so it may be tested earlier than it was written."""

    term: Term | None  # None: USING, which has only its sides
    sides: tuple[Term, Term] | None
    safe: bool
    clause: str = "WHERE"

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


class FromBinder:
    def __init__(self, catalog: Catalog, bind_body: BindBody) -> None:
        self.catalog, self.bind_body = catalog, bind_body
        self.source: Source = catalog.source
        self.scope = Scope(self.source)
        self.conjuncts: list[Conjunct] = []

    def bind(self, select: exp.Select) -> None:
        """Binds all inputs; errors in several of them are reported together."""
        errors: list[CqlError] = []
        broken = False
        group = 0
        for node in (select.args["from_"].this, *(select.args.get("joins") or [])):
            try:
                if isinstance(node, exp.Join):
                    group = self._join(node, group)
                else:
                    self._table(node)
            except CqlError as error:
                errors.append(error)
            except CqlErrors as found:
                errors += found.errors
                broken = True
            if errors and isinstance(node, exp.Join) and (node.args.get("on") or node.args.get("using")):
                break  # a name that its condition lacks may come from an input that failed
        if errors:
            raise CqlErrors(errors)
        if broken:
            raise AlreadyReported

    def _table(self, node: exp.Expr) -> None:
        start = len(self.scope.inputs)
        alias = node.args.get("alias")
        for unwanted in ("pivots", "sample", "laterals", "ordinality", "when", "version"):
            if node.args.get(unwanted):
                raise self.source.error(
                    place_of(self.source, node), f"{unwanted.upper()} after a stream is not part of CQL", "leave it out"
                )
        if isinstance(node, exp.Table):
            relation, called = self.catalog.relation(node), node.name
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            self._table(node.this)  # parentheses around joins
            for join in node.args.get("joins") or []:
                self._join(join, start)
            return
        elif isinstance(node, exp.Subquery):
            relation, called = self.bind_body(self.catalog, node.this), None
        else:
            raise self.source.error(
                place_of(self.source, node),
                "only streams, queries and subqueries can be in FROM",
                "write stream [window]",
            )
        self.scope.add(
            alias.name if alias and alias.name else called,
            self._renamed(relation, alias),
            called,
            place_of(self.source, node),
        )
        for join in node.args.get("joins") or []:
            self._join(join, start)

    def _renamed(self, relation: Relation, alias: exp.Expr | None) -> Relation:
        columns = (alias.args.get("columns") or []) if alias is not None else []
        if len(columns) > len(relation.names):
            span = place_of(self.source, columns[-1])
            raise self.source.error(
                span, f"{len(columns)} column names for {len(relation.names)} columns", "remove the extra names"
            )
        names = tuple(c.name for c in columns) + relation.names[len(columns) :]
        return Relation(relation.node, names)

    def _join(self, join: exp.Join, group: int) -> int:
        """Adds the input and conditions of a join; returns where its comma-separated group begins."""
        self._check_kind(join)
        before = len(self.scope.inputs)
        on, using, kind = join.args.get("on"), join.args.get("using"), join.args.get("kind")
        comma = not (on or using or kind or join.args.get("side") or self._starts_with_join(join))
        self._table(join.this)
        if comma:
            return before
        if on is not None:
            term = resolve(self.scope, on, since=group, clause="ON")
            predicate(term, self.scope.types, "ON")
            self.conjuncts += conjuncts(on, term, self.scope.types, "ON")
        elif using:
            for column in using:
                self._using(column, group, before)
        elif kind != "CROSS":
            raise self.source.error(
                self._join_words(join), "JOIN needs a condition", "write JOIN ... ON a.x = b.x, or CROSS JOIN"
            )
        return group

    def _using(self, column: exp.Expr, group: int, before: int) -> None:
        identifier = column.this if isinstance(column, exp.Column) else column
        span = span_of(identifier) or (0, 1)
        wanted = exp.Column(this=identifier.copy())
        right_scope = Scope(self.source, self.scope.inputs[before:])
        left_scope = Scope(self.source, self.scope.inputs[group:before], self.scope.merged)
        left, right = left_scope.find(wanted), right_scope.find(wanted)
        if left is None or right is None:
            raise (left_scope if left is None else right_scope).unknown(wanted)
        self.scope.merged[right] = left
        sides = (Term(self.source, span, (Ref(span, left),)), Term(self.source, span, (Ref(span, right),)))
        types = self.scope.types
        if types[left] != types[right] and not {types[left].value, types[right].value} <= {"BIGINT", "DOUBLE"}:
            raise self.source.error(
                span,
                f"{identifier.name} is {types[left]} on one side and {types[right]} on the other",
                "write JOIN ... ON with a CAST",
            )
        self.conjuncts.append(Conjunct(None, sides, True, "USING"))

    def _check_kind(self, join: exp.Join) -> None:
        words = [str(join.args.get(k) or "").upper() for k in ("method", "side", "kind")]
        if any(w not in ("", "INNER", "CROSS") for w in words):
            name = " ".join(w for w in words if w)
            hint = (
                "write JOIN ... ON; add the rows without a partner with UNION ALL and EXCEPT"
                if words[1]
                else "write JOIN ... ON or JOIN ... USING (...)"
            )
            raise self.source.error(self._join_words(join), f"{name} JOIN is not part of CQL", hint)

    def _starts_with_join(self, join: exp.Join) -> bool:
        tokens = self.source.tokens_in(place_of(self.source, join))
        return bool(tokens) and tokens[0].text.upper() in ("JOIN", "INNER")

    def _join_words(self, join: exp.Join) -> Span:
        tokens = self.source.tokens_in(place_of(self.source, join))
        last = next((t for t in tokens if t.text.upper() == "JOIN"), tokens[0])
        return tokens[0].start, last.end + 1

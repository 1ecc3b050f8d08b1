"""Binds the inputs of FROM in order, and the conditions of ON and USING as conjuncts.

Invariant: every input is windowed or a relation; the conditions of a JOIN see only the inputs of its own
comma-separated group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from kigen.language.app_text import Source, Span, span_of
from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.catalog import AlreadyReported, Catalog
from kigen.plan.binder.expressions.binding import place_of, predicate, resolve
from kigen.plan.binder.expressions.duckdb_types import common_type
from kigen.plan.binder.expressions.terms import Ref, Term
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct, Leaf, conjuncts
from kigen.plan.binder.from_clause.joins import join_inputs
from kigen.plan.binder.from_clause.outer import OUTER, joined_with_partners
from kigen.plan.binder.from_clause.unnest import bind_unnest, unread, word_place
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.expressions.columns import bare
from kigen.plan.join_building import common
from kigen.plan.logical import Expr, Project

BindBody = Callable[[Catalog, exp.Expr], Relation]
_KINDS = {"SEMI": "SEMI", "ANTI": "ANTI", "LEFT SEMI": "SEMI", "LEFT ANTI": "ANTI"} | {
    f"{side}{outer}": side for side in OUTER for outer in ("", " OUTER")
}
_KINDS |= {"ASOF": "ASOF", "ASOF INNER": "ASOF", "ASOF LEFT": "ASOF LEFT", "ASOF LEFT OUTER": "ASOF LEFT"}


@dataclass(frozen=True)
class Mark:
    """Where a group of inputs begins: in the scope, among the leaves, among the conditions."""

    inputs: int
    leaves: int
    conjuncts: int


class FromBinder:
    def __init__(self, catalog: Catalog, bind_body: BindBody) -> None:
        self.catalog, self.bind_body = catalog, bind_body
        self.source: Source = catalog.source
        self.scope = Scope(self.source)
        self.leaves: list[Leaf] = []
        self.conjuncts: list[Conjunct] = []
        self._unnested: set[Mark] = set()  # groups with an UNNEST of an input of another group

    def _mark(self) -> Mark:
        return Mark(len(self.scope.inputs), len(self.leaves), len(self.conjuncts))

    def bind(self, select: exp.Select) -> None:
        """Binds all inputs; errors in several of them are reported together."""
        errors: list[CqlError] = []
        broken = False
        group = self._mark()
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
        start = self._mark()
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
        elif isinstance(node, exp.Lateral):
            raise self.source.error(
                self._word_before(node, "LATERAL"),
                "LATERAL is not part of CQL",
                "join with a subquery in FROM, with the condition in ON",
            )
        elif isinstance(node, exp.Unnest):
            raise unread(self.source, node)
        else:
            raise self.source.error(
                place_of(self.source, node),
                "only streams, queries and subqueries can be in FROM",
                "write stream [window]",
            )
        place = place_of(self.source, node)
        entry = self.scope.add(
            alias.name if alias and alias.name else called, self._renamed(relation, alias), called, place
        )
        places = {entry.offset + i: i for i in range(len(entry.relation.names))}
        self.leaves.append(Leaf(Base(entry.relation.node, places), place))
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

    def _join(self, join: exp.Join, group: Mark) -> Mark:
        """Adds the input and conditions of a join; returns where its comma-separated group begins."""
        outer = self._outer_kind(join)
        before = self._mark()
        on, using, kind = join.args.get("on"), join.args.get("using"), join.args.get("kind")
        comma = not (on or using or kind or join.args.get("side") or self._starts_with_join(join))
        if isinstance(join.this, exp.Unnest):
            self._unnest(join, outer, group)
        else:
            self._table(join.this)
        if comma:  # UNNEST begins no group
            return group if isinstance(join.this, exp.Unnest) else before
        found: list[Conjunct] = []
        if on is not None:
            term = resolve(self.scope, on, since=group.inputs, clause="ON")
            predicate(term, self.scope.types, "ON")
            found = conjuncts(on, term, self.scope.types, "ON")
        elif using:
            found = [self._using(column, group, before) for column in using]
            if outer is not None and outer.startswith("ASOF"):
                found[-1] = replace(found[-1], at_or_after=True)
        elif kind != "CROSS":
            name = f"{outer} JOIN" if outer else "JOIN"
            other = "" if outer else ", or CROSS JOIN"
            raise self.source.error(
                self._join_words(join), f"{name} needs a condition", f"write {name} ... ON a.x = b.x{other}"
            )
        if outer is None:
            self.conjuncts += found
        else:
            self._join_partners(outer, group, before, found, place_of(self.source, join.this))
        return group

    def _unnest(self, join: exp.Join, outer: str | None, group: Mark) -> None:
        """Adds the elements of a list to the input that has it."""
        if outer is not None or join.args.get("using"):
            hint = "write a comma or CROSS JOIN before UNNEST"
            place = word_place(self.source, join.this)
            raise self.source.error(place, "this join with UNNEST is not part of CQL", hint)
        number, leaf = bind_unnest(self.scope, self.leaves, join.this)
        self.leaves[number] = leaf
        if number < group.leaves:
            self._unnested.add(group)

    def _join_partners(self, kind: str, group: Mark, before: Mark, found: list[Conjunct], place: Span) -> None:
        """Replaces the leaves of the group by one: their join with the inputs that were added since `before`."""
        if group in self._unnested:
            hint = "write UNNEST directly after that input"
            raise self.source.error(place, f"a {kind} JOIN cannot follow UNNEST of an input further left", hint)
        left = self._joined(self.leaves[group.leaves : before.leaves], group.conjuncts, before.conjuncts)
        right = self._joined(self.leaves[before.leaves :], before.conjuncts, None)
        base = joined_with_partners(kind, left, right, found, self.source, place)
        if kind in ("RIGHT", "FULL"):
            base = self._fused(kind, base, [c.sides for c in found if c.sides is not None and c.clause == "USING"])
        if kind in ("SEMI", "ANTI"):  # the right side is not visible any more
            del self.scope.inputs[before.inputs :]
            known = len(self.scope.types)
            self.scope.merged = {p: q for p, q in self.scope.merged.items() if p < known}
        self.leaves[group.leaves :] = [Leaf(base, place)]
        del self.conjuncts[group.conjuncts :]

    def _joined(self, leaves: list[Leaf], since: int, until: int | None) -> Base:
        return join_inputs(leaves, self.scope.types, self.conjuncts[since:until], self.catalog.rates)

    def _fused(self, kind: str, base: Base, using: list[tuple[Term, Term]]) -> Base:
        """Adds the columns of USING. A row without a partner has them from the side that it is of."""
        for left, right in using:
            (a,), (b,) = left.positions(), right.positions()
            schema, width = base.node.schema, len(base.node.schema)
            one, other = bare(schema, base.place(a)), bare(schema, base.place(b))
            one, other = common(one, other) or (one, other)
            fused = Expr(f"COALESCE({one.sql}, {other.sql})", one.type, one.text) if kind == "FULL" else other
            exprs = (*(bare(schema, i) for i in range(width)), fused)
            node = Project(base.node, exprs, (*(c.name for c in schema), self.scope.names[a]))
            base = Base(node, base.places | {self.scope.fuse(a, b, fused): width})
        return base

    def _using(self, column: exp.Expr, group: Mark, before: Mark) -> Conjunct:
        identifier = column.this if isinstance(column, exp.Column) else column
        span = span_of(identifier) or (0, 1)
        wanted = exp.Column(this=identifier.copy())
        right_scope = Scope(self.source, self.scope.inputs[before.inputs :])
        left_scope = Scope(self.source, self.scope.inputs[group.inputs : before.inputs], self.scope.merged)
        left, right = left_scope.find(wanted), right_scope.find(wanted)
        if left is None or right is None:
            raise (left_scope if left is None else right_scope).unknown(wanted)
        self.scope.merged[right] = left
        sides = (Term(self.source, span, (Ref(span, left),)), Term(self.source, span, (Ref(span, right),)))
        types = self.scope.types
        if common_type(types[left], types[right]) is None:
            raise self.source.error(
                span,
                f"{identifier.name} is {types[left]} on one side and {types[right]} on the other",
                "write JOIN ... ON with a CAST",
            )
        return Conjunct(None, sides, True, "USING")

    def _outer_kind(self, join: exp.Join) -> str | None:
        """Returns LEFT, RIGHT, FULL, SEMI or ANTI; None for an inner or cross join."""
        words = [str(join.args.get(k) or "").upper() for k in ("method", "side", "kind")]
        name = " ".join(w for w in words if w)
        if name in ("", "INNER", "CROSS"):
            return None
        if name not in _KINDS:
            hint = (
                "write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN, ANTI JOIN or ASOF JOIN ... ON or USING (...)"
            )
            raise self.source.error(self._join_words(join), f"{name} JOIN is not part of CQL", hint)
        return _KINDS[name]

    def _starts_with_join(self, join: exp.Join) -> bool:
        tokens = self.source.tokens_in(place_of(self.source, join))
        return bool(tokens) and tokens[0].text.upper() in ("JOIN", "INNER")

    def _join_words(self, join: exp.Join) -> Span:
        tokens = self.source.tokens_in(place_of(self.source, join))
        last = next((t for t in tokens if t.text.upper() == "JOIN"), tokens[0])
        return tokens[0].start, last.end + 1

    def _word_before(self, node: exp.Expr, word: str) -> Span:
        """Returns the place of a word just before a node."""
        place = place_of(self.source, node)
        words = [t for t in self.source.tokens_in((0, place[0])) if t.text.upper() == word]
        return (words[-1].start, words[-1].end + 1) if words else place

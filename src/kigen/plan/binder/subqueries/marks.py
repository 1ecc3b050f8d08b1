"""Plans sub-queries of expressions as columns beside the rows of FROM, or as conditions on them.

| sub-query | rows where it is true | as a column |
|---|---|---|
| `EXISTS (q)` | semi join | TRUE beside the rows of the semi join, FALSE beside those of the anti join |
| `x IN (q)` | semi join on `x = y` | also NULL, where no row is equal but a NULL is in the way |
| scalar | - | its value, or NULL beside every row while the sub-query has no row |

Invariant: the rows of FROM stay the same; a column only adds to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kigen.language.app_text import Span
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct
from kigen.plan.binder.from_clause.outer import partners_of
from kigen.plan.binder.from_clause.partners import Partners, Side, together
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Expr, Filter, PlanNode, Project, UnionAll
from kigen.plan.types import Type

KeyOf = Callable[[Base, Base], tuple[Expr, Expr]]  # the sides of `x IN (SELECT y)` in one type, over left and right
TRUE = Expr("TRUE", Type.BOOLEAN, "TRUE")
FALSE = Expr("FALSE", Type.BOOLEAN, "FALSE")
UNKNOWN = Expr("CAST(NULL AS BOOLEAN)", Type.BOOLEAN, "NULL")


@dataclass(frozen=True)
class Mark:
    """A sub-query that gives a column of the scope. `shift` is added to positions of the outer scope in `found`, the
    conditions that connect it with the outer query."""

    position: int
    place: Span
    right: Base
    found: Sequence[Conjunct] = ()
    shift: int = 0
    negated: bool = False

    def _left(self, base: Base) -> Base:
        return Base(base.node, {self.shift + p: c for p, c in base.places.items()})

    def _partners(self, left: Base, right: Base, keys: Sequence[tuple[Expr, Expr]] = ()) -> Partners:
        return partners_of(left, right, self.found, self.place, keys)

    def kept(self, base: Base) -> Base:
        """Returns the rows for which the sub-query is true."""
        yes, no, _ = self.cases(base)
        return Base(together(no if self.negated else yes), base.places)

    def attached(self, base: Base) -> Base:
        """Returns the rows with the sub-query's value as another column."""
        yes, no, unknown = self.cases(base)
        if self.negated:
            yes, no = no, yes
        parts = [
            _beside(node, value) for nodes, value in ((yes, TRUE), (no, FALSE), (unknown, UNKNOWN)) for node in nodes
        ]
        return Base(UnionAll(tuple(parts)), base.places | {self.position: len(base.node.schema)})

    def cases(self, base: Base) -> tuple[list[PlanNode], list[PlanNode], list[PlanNode]]:
        """Returns the rows for which the condition is true, false and NULL, before NOT."""
        partners = self._partners(self._left(base), self.right)
        return [partners.semi()], partners.anti(), []


@dataclass(frozen=True)
class InMark(Mark):
    """`x [NOT] IN (SELECT y ...)` with SQL's three values."""

    key: KeyOf | None = None

    def cases(self, base: Base) -> tuple[list[PlanNode], list[PlanNode], list[PlanNode]]:
        left, right = self._left(base), self.right
        assert self.key is not None
        x, y = self.key(left, right)
        equal = self._partners(left, right, [(x, y)])
        rest = together(equal.anti())
        known = Base(Filter(rest, _test(x, "IS NOT NULL")), left.places)
        null = Base(Filter(rest, _test(x, "IS NULL")), left.places)
        in_the_way = Base(Filter(right.node, _test(y, "IS NULL")), right.places)
        of_known, of_null = self._partners(known, in_the_way), self._partners(null, right)
        return [equal.semi()], [*of_known.anti(), *of_null.anti()], [of_known.semi(), of_null.semi()]


@dataclass(frozen=True)
class ScalarMark(Mark):
    """A scalar sub-query. `empty` is its value while it has no row."""

    empty: Expr | None = None

    def attached(self, base: Base) -> Base:
        schema, width = base.node.schema, len(base.node.schema)
        partners = Partners(Side.of(base.node, (), ()), Side.of(self.right.node, (), ()), ())
        empty = self.empty or Expr(f"CAST(NULL AS {self.right.types[0].duckdb})", self.right.types[0], "NULL")
        (alone,) = partners.anti()
        names = (*(c.name for c in schema), self.right.node.schema[0].name)
        padded = Project(alone, (*(bare(schema, i) for i in range(width)), empty), names)
        return Base(UnionAll((partners.pairs(), padded)), base.places | {self.position: width})


def _beside(node: PlanNode, value: Expr) -> PlanNode:
    schema = node.schema
    exprs = (*(bare(schema, i) for i in range(len(schema))), value)
    return Project(node, exprs, (*(c.name for c in schema), "subquery"))


def _test(expr: Expr, test: str) -> Expr:
    return Expr(f"({expr.sql}) {test}", Type.BOOLEAN, f"{expr.text} {test}")

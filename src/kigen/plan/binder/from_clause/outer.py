"""Binds the condition of an outer, semi or anti join: which parts of it are keys, which concern one side, and which
both."""

from __future__ import annotations

from collections.abc import Sequence

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import predicate, typed
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.from_clause.asof import asof_join
from kigen.plan.binder.from_clause.conjuncts import Base, Conjunct
from kigen.plan.binder.from_clause.partners import Partners, Side, together
from kigen.plan.expressions.columns import moved
from kigen.plan.join_building import common
from kigen.plan.logical import Expr
from kigen.plan.types import Type

OUTER = ("LEFT", "RIGHT", "FULL")


def joined_with_partners(
    kind: str, left: Base, right: Base, found: Sequence[Conjunct], source: Source, place: Span
) -> Base:
    """Returns a LEFT, RIGHT, FULL, SEMI, ANTI, ASOF or ASOF LEFT join of two parts of FROM. SEMI and ANTI have the
    columns of left."""
    partners = partners_of(left, right, found, place)
    if kind.startswith("ASOF"):
        return asof_join(kind, partners, left, right, source, place)
    if kind in OUTER:
        width = len(left.node.schema)
        return Base(partners.outer(kind), left.places | {p: width + c for p, c in right.places.items()})
    return Base(partners.semi() if kind == "SEMI" else together(partners.anti()), left.places)


def partners_of(
    left: Base, right: Base, found: Sequence[Conjunct], place: Span, more_keys: Sequence[tuple[Expr, Expr]] = ()
) -> Partners:
    """Returns the sides of a join with their conditions; `place` is that of the right side in the text. `more_keys` are
    equal, too."""
    keys = list(more_keys)
    of_left: list[Expr] = []
    of_right: list[Expr] = []
    of_both: list[Expr] = []
    width = len(left.node.schema)
    both = Base(left.node, left.places | {p: width + c for p, c in right.places.items()})
    types = left.types + right.types
    for conjunct in found:
        pair = _key(conjunct, left, right)
        if pair is not None and conjunct.at_or_after:
            of_both.append(_at_or_after(pair, width))
            continue
        if pair is not None:
            keys.append(pair)
            continue
        assert conjunct.term is not None, "USING gives keys"
        positions = conjunct.positions()
        if positions <= left.places.keys():
            of_left.append(predicate(conjunct.term, left.types, conjunct.clause, left.place))
        elif positions <= right.places.keys():
            of_right.append(predicate(conjunct.term, right.types, conjunct.clause, right.place))
        else:
            of_both.append(predicate(conjunct.term, types, conjunct.clause, both.place))
    return Partners(
        Side.of(left.node, [a for a, _ in keys], of_left),
        Side.of(right.node, [b for _, b in keys], of_right),
        tuple(of_both),
        place,
    )


def _at_or_after(pair: tuple[Expr, Expr], width: int) -> Expr:
    one, other = pair[0], moved(pair[1], lambda column: width + column)
    return Expr(f"{one.sql} >= {other.sql}", Type.BOOLEAN, f"{one.text} >= {other.text}")


def _key(conjunct: Conjunct, left: Base, right: Base) -> tuple[Expr, Expr] | None:
    """Returns the sides of an equality between left and right in one type; None if the condition is no such
    equality."""
    if conjunct.sides is None:
        return None
    for one, other in (conjunct.sides, conjunct.sides[::-1]):
        if _reads(one, left) and _reads(other, right):
            try:
                return common(typed(one, left.types, left.place), typed(other, right.types, right.place))
            except CqlError:
                return None  # a type that no column can have, such as INTERVAL
    return None


def _reads(term: Term, base: Base) -> bool:
    positions = term.positions()
    return bool(positions) and positions <= base.places.keys()

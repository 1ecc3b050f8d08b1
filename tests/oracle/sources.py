"""Draws random FROM lists: windows, windowed streams, relations and sub-queries, and how they join.

Cost: `card` is a rough bound on the live rows. Joins beyond MOST_CARD are not drawn, so that brute force stays fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from oracle.data import Scale
from oracle.expressions import Expressions, joined
from oracle.render_cql import source_name
from oracle.shapes import Body, Col, Derived, Expr, Named, Query, Source, Stream, Window, Windowed

MOST_CARD = 900.0
UNIT_NAMES = (
    (3_600_000_000, "HOURS"),
    (60_000_000, "MINUTES"),
    (1_000_000, "SECONDS"),
    (1_000, "MILLISECONDS"),
    (1, "MICROSECONDS"),
)
JOINED_TYPES = ("BIGINT", "BIGINT", "STRING", "BOOLEAN", "DOUBLE", "TIMESTAMP")
Drawn = tuple[Body, tuple[Col, ...], float]  # a body, its columns, its card


@dataclass(frozen=True)
class From:
    sources: tuple[Source, ...]
    ons: tuple[Expr | None, ...]
    where: Expr | None
    card: float
    ex: Expressions


class Sources(ABC):
    """Draws FROM lists. A subclass draws the sub-queries."""

    def __init__(
        self, rng: Random, scale: Scale, streams: Sequence[Stream], queries: Sequence[Query], fresh: Iterator[int]
    ) -> None:
        self.rng, self.scale, self.streams, self.queries, self.fresh = rng, scale, streams, queries, fresh

    @abstractmethod
    def _body(self, depth: int, noise: bool = False, top: bool = False) -> Drawn: ...

    def _from(self, depth: int) -> From:
        rng = self.rng
        wanted = rng.choice((1, 1, 1, 1, 2, 2, 2, 3))
        sources: list[Source] = []
        card = 1.0
        for _ in range(wanted):
            source, rows = self._source(depth, [source_name(s) for s in sources])
            if sources and card * rows > MOST_CARD:
                continue
            sources.append(source)
            card *= max(rows, 1.0)
        scope = [s.cols for s in sources]
        ex = Expressions(rng, scope, self.scale.unit, self.scale.base)
        style = rng.random() < 0.5
        conditions = [self._match(ex, i, style) for i in range(1, len(sources))]
        if len(sources) == 3 and not style and rng.random() < 0.4:
            first, second = (
                self._match(ex, 2, True, 0),
                self._match(ex, 2, True, 1),
            )  # a cross product in the order written
            assert first is not None
            assert second is not None
            conditions = [None, joined("BOOLEAN", first, " AND ", second)]
        if style:
            return From(tuple(sources), tuple(conditions), None, card, ex)
        where: Expr | None = None
        for c in conditions:
            if c is not None:
                where = c if where is None else joined("BOOLEAN", where, " AND ", c)
        return From(tuple(sources), (None,) * len(conditions), where, card, ex)

    def _match(self, ex: Expressions, i: int, needed: bool, other: int | None = None) -> Expr | None:
        """Draws how FROM item `i` joins with earlier ones: mostly by equality, perhaps with more conditions, perhaps
        not at all."""
        rng = self.rng
        sub = Expressions(rng, ex.scope[: i + 1], ex.unit, ex.base)
        sub.unique = ex.unique
        before = range(i) if other is None else (other,)
        pairs = [(a, b) for k in before for t in JOINED_TYPES for a in sub.places(t, k) for b in sub.places(t, i)]
        if pairs and rng.random() < 0.8:
            a, b = rng.choice(pairs)
            left, right = sub.ref(*a), sub.ref(*b)
            if rng.random() < 0.2 and left.type in ("BIGINT", "DOUBLE", "TIMESTAMP"):
                return self._ordered(left, right)
            if left.type == "BIGINT" and left.bits < 50:
                left, right = self._computed(left), self._computed(right)
            if rng.random() < 0.5:
                left, right = right, left
            test = joined("BOOLEAN", left, " = ", right)
            if rng.random() < 0.2:
                test = joined("BOOLEAN", test, " AND ", sub.predicate(1))
            if rng.random() < 0.1 and left.type in ("BIGINT", "TIMESTAMP"):
                test = joined("BOOLEAN", test, " AND ", self._ordered(sub.ref(*a), sub.ref(*b)))
            return test
        return sub.predicate(1) if needed or rng.random() < 0.3 else None

    def _computed(self, e: Expr) -> Expr:
        """Sometimes returns an expression instead of the column, so that a key must be computed."""
        roll = self.rng.random()
        if roll < 0.08:
            return joined("BIGINT", e, " + 1", bits=e.bits + 1)
        if roll < 0.18:
            return joined("BIGINT", e, f" % {self.rng.choice((2, 3, 7))}", bits=3)
        return joined("BIGINT", e, " // 2", bits=e.bits) if roll < 0.22 else e

    def _ordered(self, left: Expr, right: Expr) -> Expr:
        """Draws an inequality, or a band."""
        rng = self.rng
        if rng.random() < 0.5:
            left, right = right, left
        roll = rng.random()
        if roll < 0.3 and left.bits < 50 and right.bits < 50:
            n = rng.randint(0, 3)
            width = f" + INTERVAL {n} SECONDS" if left.type == "TIMESTAMP" else f" + {n}"
            return joined("BOOLEAN", "(", left, " BETWEEN ", right, " AND ", right, width, ")")
        if roll < 0.45 and left.type == "BIGINT" and left.bits < 30:
            return joined(
                "BOOLEAN", "(", left, rng.choice((" * 1.5", " - 0.5")), rng.choice((" < ", " >= ")), right, ")"
            )
        if roll < 0.6 and left.type == "BIGINT" and left.bits < 50:
            return joined("BOOLEAN", "(CAST(", left, " AS DOUBLE)", rng.choice((" < ", " > ")), right, ")")
        return joined("BOOLEAN", "(", left, f" {rng.choice(('<', '<=', '>', '>='))} ", right, ")")

    def _source(self, depth: int, taken: Sequence[str]) -> tuple[Source, float]:
        rng = self.rng
        alias = next(a for a in rng.sample(("a", "b", "c", "d"), 4) if a not in taken)
        roll = rng.random()
        if depth > 0 and roll < 0.24:
            body, cols, card = self._body(depth - 1)
            return Derived(body, alias, cols), card
        readable = [q for q in self.queries if q.readable]
        if readable and roll < 0.5:
            q = rng.choice(readable)
            shown = alias if q.name in taken or rng.random() < 0.4 else None
            if q.kind is None:
                return Named(q.name, shown, q.cols), q.card
            window, card = self._window(q.cols, q.card)
            return Windowed(q.name, window, shown, q.cols), card
        s = rng.choice(self.streams)
        shown = alias if s.name in taken or rng.random() < 0.4 else None
        window, card = self._window(s.cols, float(len(s.rows)))
        return Windowed(s.name, window, shown, s.cols), card

    def _window(self, cols: Sequence[Col], rows: float) -> tuple[Window, float]:
        rng, unit = self.rng, self.scale.unit
        roll = rng.random()
        if roll < 0.22:
            size = self._duration()
            return Window("RANGE", f"RANGE {self._spelled(size)}", size), rows
        if roll < 0.5:
            slide = rng.randint(1, 8) * unit
            size = rng.choice((slide, slide * rng.randint(2, 4), self._duration(), max(1, slide // 2)))
            return Window("RANGE", f"RANGE {self._spelled(size)} SLIDE {self._spelled(slide)}", size, slide), rows
        if roll < 0.7:
            n = rng.choice((1, 1, 2, 3, 5, 10, 100))
            return Window("ROWS", f"ROWS {n}", n), min(rows, n)
        if roll < 0.84:
            n = rng.choice((1, 1, 2, 3))
            by = tuple(rng.sample(range(len(cols)), min(len(cols), rng.choice((1, 1, 2)))))
            return Window(
                "PARTITION", f"PARTITION BY {', '.join(cols[c].name for c in by)} ROWS {n}", n, partition=by
            ), rows
        if roll < 0.92:
            return Window("NOW", "NOW"), min(rows, 3.0)
        return Window("UNBOUNDED", "UNBOUNDED"), rows

    def _duration(self) -> int:
        rng = self.rng
        off = rng.randint(-1, 1) if self.scale.unit > 1 and rng.random() < 0.1 else 0
        return rng.choice((1, 2, 3, 5, 10, 20)) * self.scale.unit + off

    def _spelled(self, us: int) -> str:
        fits = [(size, name) for size, name in UNIT_NAMES if us % size == 0]
        size, name = fits[0] if self.rng.random() < 0.7 else self.rng.choice(fits)
        return f"{us // size} {name}"

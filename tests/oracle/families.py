"""Draws families of queries: the same join over different windows, each query with its own select list, conditions and
surroundings.

The planner makes one join of a family. The windows of both sides mostly agree and have few sizes, so that queries share
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from oracle.data import Scale
from oracle.expressions import Expressions, joined
from oracle.queries import KINDS, Queries, columns_of
from oracle.shapes import Derived, Expr, Query, Select, Source, Stream, Window, Windowed
from oracle.sources import From

MOST_PAIRS = 1_500


class Family(Queries):
    """Draws one query of the family after another with `draw`."""

    def __init__(
        self, rng: Random, scale: Scale, streams: Sequence[Stream], queries: Sequence[Query], fresh: Iterator[int]
    ) -> None:
        super().__init__(rng, scale, streams, queries, fresh)
        small = [(a, b) for a in streams for b in streams if 0 < len(a.rows) * len(b.rows) <= MOST_PAIRS]
        self.possible = bool(small)
        if not small:
            return
        apart = [(a, b) for a, b in small if a is not b]
        self.pair = rng.choice(apart if apart and rng.random() < 0.8 else small)
        self.kind = rng.choice(("RANGE", "RANGE", "ROWS"))
        self.sizes = [self._duration() if self.kind == "RANGE" else rng.choice((1, 2, 3, 5, 10)) for _ in range(3)]
        self.condition = self._condition()
        self.aliases = rng.sample(("a", "b", "c", "d"), 2)

    def _condition(self) -> Expr:
        """Draws one or two equalities, perhaps of an expression, perhaps with more conditions."""
        rng, ex = self.rng, self._expressions()
        few = [[i for i, c in enumerate(s.cols) if c.type == "BIGINT" and c.bits < 10] for s in self.pair]
        left, right = ex.ref(0, rng.choice(few[0])), ex.ref(1, rng.choice(few[1]))
        if rng.random() < 0.25:
            left = joined("BIGINT", left, rng.choice((" + 1", " % 3")), bits=left.bits + 1)
        test = joined("BOOLEAN", left, " = ", right)
        return joined("BOOLEAN", test, " AND ", ex.predicate(1)) if rng.random() < 0.3 else test

    def _band(self, ex: Expressions) -> Expr:
        """Draws an inequality between both sides, perhaps of an expression, that only some queries of the family
        have."""
        few = [[i for i, c in enumerate(s.cols) if c.type == "BIGINT" and c.bits < 10] for s in self.pair]
        return self._ordered(ex.ref(0, self.rng.choice(few[0])), ex.ref(1, self.rng.choice(few[1])))

    def _expressions(self) -> Expressions:
        return Expressions(self.rng, [s.cols for s in self.pair], self.scale.unit, self.scale.base)

    def draw(self, name: str) -> Query:
        rng = self.rng
        select = self._member()
        if rng.random() < 0.2:
            select = self._above(select)
        kind = rng.choice(KINDS)
        every_us, every_text = self._every() if kind == "RSTREAM EVERY" else (None, "")
        kind = "RSTREAM" if kind == "RSTREAM EVERY" else kind
        clauses = rng.choice(("", "", "DEADLINE 2 SECONDS"))
        return Query(name, select, columns_of(select), kind, every_us, every_text, clauses, readable=False)

    def _member(self) -> Select:
        rng, ex = self.rng, self._expressions()
        where, on = (None, self.condition) if rng.random() < 0.5 else (self.condition, None)
        if rng.random() < 0.5:
            extra = self._band(ex) if rng.random() < 0.3 else ex.predicate(rng.choice((0, 0, 1)))
            where = extra if where is None else joined("BOOLEAN", where, " AND ", extra)
        sources = tuple(
            Windowed(s.name, w, a, s.cols) for s, w, a in zip(self.pair, self._windows(), self.aliases, strict=True)
        )
        drawn = From(sources, (on,), where, 1.0, ex)
        return self._aggregated(drawn, None, False) if rng.random() < 0.35 else self._plain(drawn, None, False)

    def _windows(self) -> tuple[Window, Window]:
        rng = self.rng
        left = rng.choice(self.sizes)
        right = left if rng.random() < 0.7 else rng.choice(self.sizes)
        return self._of_size(left), self._of_size(right)

    def _of_size(self, size: int) -> Window:
        if self.kind == "ROWS":
            return Window("ROWS", f"ROWS {size}", size)
        if size == 1 or self.rng.random() < 0.05:
            return Window("NOW", "NOW")
        return Window("RANGE", f"RANGE {self._spelled(size)}", size)

    def _above(self, select: Select) -> Select:
        """Puts the join into a sub-query in FROM, alone or beside a third stream."""
        rng = self.rng
        sources: tuple[Source, ...] = (Derived(select, "z", columns_of(select)),)
        third = rng.choice(self.streams)
        if rng.random() < 0.4 and len(third.rows) <= 20:
            sources = (*sources, Windowed(third.name, Window("ROWS", "ROWS 2", 2), "y", third.cols))
        ex = Expressions(rng, [s.cols for s in sources], self.scale.unit, self.scale.base)
        return self._plain(From(sources, (None,) * (len(sources) - 1), None, 1.0, ex), None, False)

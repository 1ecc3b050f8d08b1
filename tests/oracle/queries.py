"""Draws random queries: selects with and without aggregates, set operations, relation-to-stream operators.

Invariant: a result whose last bits depend on the order of summation (`noise`) is never compared, grouped or streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oracle.expressions import COUNT_ALL, Expressions, joined
from oracle.shapes import Col, Derived, Expr, Query, Ref, Select, SetOp, Source, Windowed
from oracle.sources import Drawn, From, Sources

SET_OPS = ("UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
KINDS = (None,) * 9 + ("ISTREAM",) * 4 + ("DSTREAM",) * 3 + ("RSTREAM",) * 2 + ("RSTREAM EVERY",) * 2


class Queries(Sources):
    aggregated_share = 0.4

    def draw(self, name: str) -> Query:
        rng = self.rng
        kind = rng.choice(KINDS)
        body, cols, card = self._body(
            0 if self.scale.most_rows > 100 else rng.choice((0, 1, 1, 2)), noise=kind is None, top=True
        )
        every_us, every_text = None, ""
        if kind == "RSTREAM EVERY":
            kind = "RSTREAM"
            every_us, every_text = self._every()
        names = [c.name for c in cols]
        total = card if kind is None else card * (2 if kind != "RSTREAM" else self.scale.most_rows * 2)
        readable = len(set(names)) == len(names) and not any(c.noisy for c in cols) and total < 300
        clauses = rng.choice(
            ("", "", "", "DEADLINE 2 SECONDS", "DEADLINE 500 MILLISECONDS FIRM", "COST 1 MICROSECONDS")
        )
        return Query(name, body, cols, kind, every_us, every_text, clauses, readable, total)

    def _every(self) -> tuple[int, str]:
        times = [t for s in self.streams for t in s.times] or [0]
        span = (max(times) - min(times)) // 1_000_000
        n = max(1, span // self.rng.randint(5, 40))
        return n * 1_000_000, f"[{n} SECONDS]"

    # --- bodies ---------------------------------------------------------------------------------------------------

    def _body(self, depth: int, noise: bool = False, top: bool = False) -> Drawn:
        if self.rng.random() < 0.28:
            return self._set_op(depth, None) if depth > 0 else self._twins(self.rng.choice(SET_OPS))
        return self._select(depth, None, noise, top)

    def _set_op(self, depth: int, types: Sequence[str] | None) -> Drawn:
        rng = self.rng
        op = rng.choice(SET_OPS)

        def side(types: Sequence[str] | None) -> Drawn:
            if depth > 1 and rng.random() < 0.3:
                return self._set_op(depth - 1, types)
            return self._select(depth - 1, types, False, False)

        if types is None and rng.random() < 0.6:
            return self._twins(op)
        left, lcols, lcard = side(
            types or [rng.choice(rng.choice(self.streams).cols).type for _ in range(rng.randint(1, 2))]
        )
        narrow = [("BIGINT" if c.type == "DOUBLE" and types is None and rng.random() < 0.2 else c.type) for c in lcols]
        right, rcols, rcard = side(narrow)  # a BIGINT beside a DOUBLE becomes one
        if any(a.type != b.type and b.bits > 50 for a, b in zip(lcols, rcols, strict=True)):
            right, rcols, rcard = side([c.type for c in lcols])
        cols = tuple(
            Col(a.name, a.type, max(a.bits, b.bits), a.dyadic and b.dyadic) for a, b in zip(lcols, rcols, strict=True)
        )
        return SetOp(op, left, right, cols), cols, lcard + rcard

    def _twins(self, op: str) -> Drawn:
        """Draws the same columns of the same stream, or of a similar one, in two windows, so that both sides have rows
        in common."""
        rng = self.rng
        s = rng.choice(self.streams)
        few = [
            i for i, c in enumerate(s.cols) if c.type in ("BOOLEAN", "STRING") or (c.type == "BIGINT" and c.bits < 10)
        ]
        places = few if rng.random() < 0.75 else range(len(s.cols))  # few values, so that rows occur twice
        kept = rng.sample(places, min(len(places), rng.choice((1, 1, 2))))

        def side() -> Select:
            twin = rng.choice([t for t in self.streams if t.cols == s.cols])
            source = Windowed(twin.name, self._window(twin.cols, 1.0)[0], None, twin.cols)
            ex = Expressions(rng, [twin.cols], self.scale.unit, self.scale.base)
            where = ex.predicate(0) if rng.random() < 0.3 else None
            return Select(self._named([ex.ref(0, c) for c in kept], (source,), False), (source,), (), where)

        left, right = side(), side()
        cols = columns_of(left)
        return SetOp(op, left, right, cols), cols, 2.0 * len(s.rows)

    def _select(self, depth: int, types: Sequence[str] | None, noise: bool, top: bool) -> Drawn:
        rng = self.rng
        source = self._from(depth)
        if rng.random() < (0.65 if any(isinstance(s, Derived) for s in source.sources) else 0.3):
            extra = source.ex.predicate(rng.choice((0, 1, 1, 2)))
            source = replace(
                source, where=extra if source.where is None else joined("BOOLEAN", source.where, " AND ", extra)
            )
        aggregated = rng.random() < self.aggregated_share
        select = self._aggregated(source, types, noise) if aggregated else self._plain(source, types, top)
        cols = columns_of(select)
        if not top and len({c.name for c in cols}) < len(cols):
            raise AssertionError("names of a sub-query repeat")
        return select, cols, 1.0 if select.is_global else source.card

    def _plain(self, source: From, types: Sequence[str] | None, top: bool) -> Select:
        rng, ex, sources = self.rng, source.ex, source.sources
        distinct = rng.random() < 0.25
        every = [(i, j) for i, s in enumerate(sources) for j in range(len(s.cols))]
        names = [sources[i].cols[j].name for i, j in every]
        if types is None and rng.random() < 0.25 and (top or len(set(names)) == len(names)):
            items = tuple((ex.ref(i, j), None) for i, j in every)
            return Select(items, sources, source.ons, source.where, distinct=distinct, star=True)
        drawn: list[Expr] = []
        if types is None:
            for _ in range(rng.randint(1, 4)):
                drawn.append(ex.any_column() if rng.random() < 0.5 else ex.draw(self._kind(ex)))
        else:
            drawn = [(ex.column(t) if rng.random() < 0.8 else None) or ex.draw(t, 1) for t in types]
        return Select(self._named(drawn, sources, repeat=top), sources, source.ons, source.where, distinct=distinct)

    def _aggregated(self, source: From, types: Sequence[str] | None, noise: bool) -> Select:
        rng, ex, sources = self.rng, source.ex, source.sources
        group: list[Expr] = []
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            g = ex.any_column() if rng.random() < 0.65 else ex.draw(self._kind(ex), 1)
            group.append(g if any(isinstance(p, Ref) for p in g.parts) else ex.any_column())
        wanted = types or [self._kind(ex) for _ in range(rng.randint(1, 3))]
        drawn: list[Expr] = [] if types is not None else [g for g in group if rng.random() < 0.8]
        for t in wanted:
            keys = [g for g in group if g.type == t]
            if types is not None and keys and rng.random() < 0.6:
                drawn.append(rng.choice(keys))
            else:
                drawn.append(self._over_aggregates(ex, t, noise))
        having = self._having(ex) if rng.random() < 0.25 else None
        if having is not None and not group and rng.random() < 0.1 and types is None:
            drawn = [ex.literal("BIGINT")]
        distinct = rng.random() < 0.08 and not any(e.noisy for e in drawn)
        return Select(
            self._named(drawn, sources, False),
            sources,
            source.ons,
            source.where,
            tuple(group),
            having,
            distinct,
            aggregated=True,
        )

    def _over_aggregates(self, ex: Expressions, kind: str, noise: bool) -> Expr:
        rng = self.rng
        a = ex.aggregate(kind, noise)
        roll = rng.random()
        if roll < 0.75 or a.noisy:
            return a
        if roll < 0.85:
            return joined(kind, "COALESCE(", a, ", ", ex.literal(kind), ")", bits=a.bits, dyadic=a.dyadic)
        if roll < 0.92 and kind in ("BIGINT", "DOUBLE") and a.bits < 50:
            b = ex.aggregate("BIGINT", False)
            if b.bits < 50:
                return joined(kind, "(", a, " + ", b, ")", bits=max(a.bits, b.bits) + 3, dyadic=a.dyadic)
        return joined(
            kind, "CASE WHEN ", COUNT_ALL, f" > {rng.randint(1, 3)} THEN ", a, " END", bits=a.bits, dyadic=a.dyadic
        )

    def _having(self, ex: Expressions) -> Expr:
        rng = self.rng
        test = ex.condition(ex.aggregate(rng.choice(("BIGINT", "BIGINT", "DOUBLE", "STRING")), False), columns=False)
        if rng.random() < 0.3:
            test = joined("BOOLEAN", "(", test, rng.choice((" AND ", " OR ")), COUNT_ALL, f" >= {rng.randint(1, 4)})")
        return test

    def _named(
        self, drawn: Sequence[Expr], sources: tuple[Source, ...], repeat: bool
    ) -> tuple[tuple[Expr, str | None], ...]:
        """Names the items. Bare columns may keep their names, and repeat them if `repeat` is set; all others get an
        alias."""
        rng = self.rng
        items: list[tuple[Expr, str | None]] = []
        used: set[str] = set()
        for e in drawn:
            own = (
                sources[e.parts[0].item].cols[e.parts[0].col].name
                if len(e.parts) == 1 and isinstance(e.parts[0], Ref)
                else None
            )
            if own is not None and rng.random() < 0.6 and (own not in used or (repeat and rng.random() < 0.3)):
                items.append((e, None))
                used.add(own)
            else:
                items.append((e, f"x{next(self.fresh)}"))  # a name no column of the app has: an alias must not hide one
        return tuple(items)

    def _kind(self, ex: Expressions) -> str:
        """Draws a type, mostly one that some column has."""
        return (
            ex.any_column().type
            if self.rng.random() < 0.7
            else self.rng.choice(("BIGINT", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP"))
        )


def columns_of(select: Select) -> tuple[Col, ...]:
    cols = []
    for e, name in select.items:
        if name is None:
            part = e.parts[0]
            assert isinstance(part, Ref)
            name = select.sources[part.item].cols[part.col].name
        cols.append(Col(name, e.type, e.bits, e.dyadic, e.noisy))
    return tuple(cols)

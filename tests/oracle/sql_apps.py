"""Draws random apps with the newer parts of the language: `generate_sql(seed)`.

Apart from `generate`, so that the apps of its seeds stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random

from oracle.data import Scale, draw_stream
from oracle.expressions import MOST_ROWS_BITS, Expressions, joined
from oracle.generate import _with_results
from oracle.queries import Queries
from oracle.shapes import Agg, App, Col, Expr, First, Query, Select, Stream, Window, Windowed
from oracle.sources import Drawn, From

DIRECTIONS = ("", " DESC", " ASC NULLS FIRST", " DESC NULLS FIRST", " NULLS LAST")


def generate_sql(seed: int) -> App:
    rng = Random(f"sql {seed}")
    scale = Scale.draw(rng)
    streams: list[Stream] = []
    for name in rng.sample(("readings", "s1", "cars"), rng.choice((1, 1, 2))):
        streams.append(draw_stream(rng, name, scale))
    queries: list[Query] = []
    fresh = count()
    for i in range(1 if scale.most_rows > 100 else rng.choice((1, 2, 3))):
        drawer = SqlQueries(rng, scale, streams, queries, fresh)
        queries.append(_with_results(drawer, seed, streams, queries, f"q{i}"))
    return App(seed, tuple(streams), tuple(queries))


class SqlQueries(Queries):
    """Draws queries, mostly with aggregates."""

    aggregated_share = 0.6

    def _select(self, depth: int, types: Sequence[str] | None, noise: bool, top: bool) -> Drawn:
        first = self.rng.random() < 0.4
        select, cols, card = super()._select(depth, types, noise and not first, top)
        assert isinstance(select, Select)
        return (replace(select, first=self._first(len(cols))) if first else select), cols, card

    def _window(self, cols: Sequence[Col], rows: float) -> tuple[Window, float]:
        rng = self.rng
        roll = rng.random()
        size = rng.choice((1, 2, 3, 5)) * self.scale.unit + rng.choice((0, 0, 1))
        parts = tuple(rng.sample(range(len(cols)), rng.randint(1, min(2, len(cols)))))
        by = f"PARTITION BY {', '.join(cols[k].name for k in parts)} "
        if roll < 0.12:
            return Window("SESSION", f"SESSION {self._spelled(size)}", size), rows
        if roll < 0.25:
            return Window("SESSION", f"{by}SESSION {self._spelled(size)}", size, partition=parts), rows
        if roll < 0.3:
            return Window("RANGE", f"{by}RANGE {self._spelled(size)}", size), rows
        stamps = [k for k, c in enumerate(cols) if c.type == "TIMESTAMP"]
        if roll < 0.5 and stamps:
            until = rng.choice(stamps)
            return Window("UNTIL", f"UNTIL {cols[until].name}", until=until), rows
        return super()._window(cols, rows)

    def _first(self, columns: int) -> First:
        rng = self.rng
        places = rng.sample(range(columns), rng.randint(0, min(columns, 2)))
        order = tuple((k, rng.choice(DIRECTIONS)) for k in places)
        by = tuple(rng.sample(range(columns), 1)) if rng.random() < 0.3 else ()
        return First(order, rng.choice((1, 1, 2, 3, 5, 10)), rng.choice((0, 0, 0, 1, 2)), by)

    def _aggregated(self, source: From, types: Sequence[str] | None, noise: bool) -> Select:
        self._source_now = source
        return super()._aggregated(source, types, noise)

    def _over_aggregates(self, ex: Expressions, kind: str, noise: bool) -> Expr:
        drawn = self._newer(ex, kind, noise) if self.rng.random() < 0.8 else None
        return drawn or super()._over_aggregates(ex, kind, noise)

    def _newer(self, ex: Expressions, kind: str, noise: bool) -> Expr | None:
        rng = self.rng
        where = ex.predicate(1) if rng.random() < 0.35 else None
        if kind == "BIGINT" and rng.random() < 0.6:
            arg = None if where is not None and rng.random() < 0.3 else ex.any_column()
            return joined(kind, Agg("COUNT", arg, kind, arg is not None, where=where), bits=MOST_ROWS_BITS)
        if kind in ("BIGINT", "DOUBLE") and rng.random() < 0.5:
            found = self._numeric(ex, kind, noise, where)
            if found is not None:
                return found
        if kind == "BOOLEAN" and rng.random() < 0.6:
            return joined(kind, Agg(rng.choice(("BOOL_AND", "BOOL_OR")), ex.predicate(1), kind, where=where))
        if kind == "STRING" and rng.random() < 0.5:
            order = tuple((ex.any_column(), rng.choice(DIRECTIONS)) for _ in range(rng.randint(1, 2)))
            more = rng.choice((("', '",), ("''",), ()))
            call = Agg(
                "STRING_AGG", ex.draw(kind, 1), kind, more=more, order=order, where=where, complete=self._all(ex)
            )
            return joined(kind, call)
        return self._chosen(ex, kind, where)

    def _numeric(self, ex: Expressions, kind: str, noise: bool, where: Expr | None) -> Expr | None:
        rng = self.rng
        arg = ex.draw(kind if kind == "BIGINT" else rng.choice(("BIGINT", "DOUBLE")), 1)
        if kind == "BIGINT":
            if arg.bits + MOST_ROWS_BITS >= 62:
                return None
            return joined(kind, Agg("SUM", arg, kind, True, where=where), bits=arg.bits + MOST_ROWS_BITS)
        func = rng.choice(("AVG", "STDDEV", "STDDEV_POP", "VAR_SAMP", "VAR_POP", "MEDIAN", "QUANTILE_CONT"))
        if not noise or arg.bits > 20:
            return None
        more = (rng.choice(("0", "0.25", "0.9", "1")),) if func == "QUANTILE_CONT" else ()
        distinct = func not in ("MEDIAN", "QUANTILE_CONT") and rng.random() < 0.3
        call = Agg(func, arg, kind, distinct, more, where=where)
        return joined(kind, call, bits=2 * arg.bits, dyadic=False, noisy=True)

    def _chosen(self, ex: Expressions, kind: str, where: Expr | None) -> Expr:
        rng = self.rng
        arg, complete = ex.draw(kind, 1), self._all(ex)
        sources = self._source_now.sources
        roll = rng.random()
        if roll < 0.5:
            call = Agg(rng.choice(("ARG_MIN", "ARG_MAX")), arg, kind, more=(ex.any_column(),), where=where,
                       complete=complete)  # fmt: skip
        else:
            ordered = rng.random() < 0.3 or len(sources) > 1 or not isinstance(sources[0], Windowed)
            order = ((ex.any_column(), rng.choice(DIRECTIONS)),) if ordered else ()
            call = Agg(rng.choice(("FIRST", "LAST")), arg, kind, order=order, where=where, complete=complete)
        return joined(kind, call, bits=arg.bits, dyadic=arg.dyadic)

    def _all(self, ex: Expressions) -> tuple[Expr, ...]:
        return tuple(ex.ref(i, j) for i, s in enumerate(self._source_now.sources) for j in range(len(s.cols)))

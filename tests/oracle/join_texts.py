"""Draws random joins with partners as text: outer, semi and anti joins.

Both languages read the same text, so that DuckDB judges exactly what was written (oracle.shapes.Text).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from random import Random

from oracle.data import Scale, draw_stream
from oracle.queries import Queries
from oracle.shapes import App, Col, Query, Stream, Text, Window, Windowed

KINDS = ("LEFT", "LEFT", "LEFT OUTER", "RIGHT", "FULL", "FULL OUTER", "SEMI", "ANTI", "ANTI")
NUMBERS = ("BIGINT", "DOUBLE")
Named = tuple[str, Windowed]  # an alias and what it stands for


class JoinTexts:
    """Draws bodies over the streams of one app."""

    def __init__(self, rng: Random, scale: Scale, streams: list[Stream]) -> None:
        self.rng, self.streams = rng, streams
        self._windows = Queries(rng, scale, streams, (), count())
        self.sources: list[Windowed] = []
        self.sql: str | None = None

    def source(self, alias: str) -> tuple[str, Named]:
        """Draws a windowed stream; returns its text in FROM."""
        tables = [s for s in self.streams if s.table]
        stream = self.rng.choice([s for s in self.streams if not s.table])
        if tables and self.sources and self.rng.random() < 0.3:
            stream = self.rng.choice(tables)
            self.sources.append(Windowed(stream.name, Window("UNBOUNDED", ""), None, stream.cols))
            return f"{{{len(self.sources) - 1}}} AS {alias}", (alias, self.sources[-1])
        window, _ = self._windows._window(stream.cols, float(len(stream.rows)))
        self.sources.append(Windowed(stream.name, window, None, stream.cols))
        return f"{{{len(self.sources) - 1}}} AS {alias}", (alias, self.sources[-1])

    # --- conditions -----------------------------------------------------------------------------------------------

    def equality(self, left: Named, right: Named) -> str:
        """Draws an equality of two columns, mostly of one type."""
        pairs = [
            (a, b)
            for a in left[1].cols
            for b in right[1].cols
            if a.type == b.type or {a.type, b.type} == set(NUMBERS)
            if a.name != "ts" or self.rng.random() < 0.1
        ]
        if not pairs:
            return "TRUE"
        a, b = self.rng.choice(pairs)
        one, other = f"{left[0]}.{a.name}", f"{right[0]}.{b.name}"
        if self.rng.random() < 0.1 and a.type == b.type == "BIGINT" and max(a.bits, b.bits) < 50:
            one = f"{one} + 1"
        return f"{one} = {other}" if self.rng.random() < 0.5 else f"{other} = {one}"

    def own(self, named: Named) -> str:
        """Draws a condition on one input."""
        rng = self.rng
        column = rng.choice(named[1].cols)
        name = f"{named[0]}.{column.name}"
        if column.type in NUMBERS and rng.random() < 0.8:
            return f"{name} {rng.choice(('<', '>', '>=', '<>'))} {rng.randint(-1, 3)}"
        if column.type == "BOOLEAN" and rng.random() < 0.7:
            return rng.choice((name, f"NOT {name}"))
        return f"{name} IS {rng.choice(('NULL', 'NOT NULL', 'NOT NULL'))}"

    def between(self, left: Named, right: Named) -> str:
        """Draws a condition on both inputs that is no equality of columns."""
        rng = self.rng
        pairs = [
            (a, b)
            for a in left[1].cols
            for b in right[1].cols
            if (a.type == b.type and a.type in ("TIMESTAMP", *NUMBERS, "STRING"))
        ]
        if not pairs:
            return f"({self.own(left)} OR {self.own(right)})"
        a, b = rng.choice(pairs)
        return f"{left[0]}.{a.name} {rng.choice(('<', '<=', '>', '>=', '<>'))} {right[0]}.{b.name}"

    def condition(self, left: Named, right: Named) -> str:
        rng = self.rng
        parts = [self.equality(left, right)] if rng.random() < 0.85 else []
        if rng.random() < 0.15:
            parts.append(self.equality(left, right))
        if rng.random() < 0.2:
            parts.append(self.own(left))
        if rng.random() < 0.2:
            parts.append(self.own(right))
        if rng.random() < 0.2 or not parts:
            parts.append(self.between(left, right))
        rng.shuffle(parts)
        return " AND ".join(parts)

    # --- bodies ---------------------------------------------------------------------------------------------------

    def joined(self) -> tuple[str, list[Named]]:
        """Draws a FROM of two or three inputs; returns it and the inputs that are visible after it."""
        rng = self.rng
        text, first = self.source("a")
        visible = [first]
        for alias in ("b", "c")[: rng.choice((1, 1, 1, 2))]:
            kind = rng.choice(KINDS) if alias == "b" or rng.random() < 0.6 else "INNER"
            more, named = self.source(alias)
            left = rng.choice(visible)
            common = [c.name for c in left[1].cols if c in named[1].cols]
            if len(visible) == 1 and common and rng.random() < 0.2:
                text += f" {kind} JOIN {more} USING ({rng.choice(common)})"
            else:
                text += f" {kind} JOIN {more} ON {self.condition(left, named)}"
            if kind not in ("SEMI", "ANTI"):
                visible.append(named)
        return text, visible

    def items(self, visible: list[Named]) -> tuple[str, tuple[Col, ...]]:
        rng = self.rng
        every = [(alias, c) for alias, source in visible for c in source.cols]
        chosen = every if rng.random() < 0.5 else rng.sample(every, rng.randint(1, len(every)))
        cols = tuple(Col(f"x{i}", c.type, c.bits, c.dyadic) for i, (_, c) in enumerate(chosen))
        return ", ".join(f"{alias}.{c.name} AS x{i}" for i, (alias, c) in enumerate(chosen)), cols

    def outer(self) -> tuple[str, tuple[Col, ...]]:
        rng = self.rng
        source, visible = self.joined()
        if rng.random() < 0.15:
            group = [c for c in visible[0][1].cols if c.type in ("BOOLEAN", "STRING", "BIGINT")]
            if group:
                key = rng.choice(group)
                named = f"{visible[0][0]}.{key.name}"
                last = visible[-1]
                counted = f"{last[0]}.{rng.choice(last[1].cols).name}"
                cols = (Col("x0", key.type, key.bits), Col("n", "BIGINT"), Col("m", "BIGINT"))
                select = f"SELECT {named} AS x0, COUNT(*) AS n, COUNT({counted}) AS m"
                return f"{select} FROM {source} GROUP BY {named}", cols
        items, cols = self.items(visible)
        where = ""
        if rng.random() < 0.3:
            where = f" WHERE {self.own(rng.choice(visible))}"
        distinct = "DISTINCT " if rng.random() < 0.1 else ""
        return f"SELECT {distinct}{items} FROM {source}{where}", cols

    # --- sub-queries in expressions -----------------------------------------------------------------------------------

    def exists(self, outer: Named) -> str:
        rng = self.rng
        source, inner = self.source("e")
        tests = [self.equality(outer, inner)] if rng.random() < 0.85 else []
        if rng.random() < 0.3:
            tests.append(self.own(inner))
        if rng.random() < 0.15:
            tests.append(self.between(outer, inner))
        if rng.random() < 0.1:
            tests.append(self.own(outer))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{rng.choice(('', 'NOT '))}EXISTS (SELECT {rng.choice(('1', '*', 'e.ts'))} FROM {source}{where})"

    def member(self, outer: Named) -> str:
        """Draws `x [NOT] IN (SELECT y ...)`."""
        rng = self.rng
        source, inner = self.source("i")
        pairs = [
            (a, b)
            for a in outer[1].cols
            for b in inner[1].cols
            if (a.type == b.type and a.type != "TIMESTAMP") or {a.type, b.type} == set(NUMBERS)
        ]
        if not pairs:
            return "TRUE"
        a, b = rng.choice(pairs)
        inside, roll = f"i.{b.name}", rng.random()
        word = rng.choice(("IN", "NOT IN", "NOT IN"))
        if roll < 0.15:
            return f"{outer[0]}.{a.name} {word} (SELECT MAX({inside}) FROM {source} GROUP BY {inside})"
        tests = [self.own(inner)] if rng.random() < 0.3 else []
        if rng.random() < 0.35:
            tests.append(self.equality(outer, inner))
        if rng.random() < 0.1:
            tests.append(self.between(outer, inner))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{outer[0]}.{a.name} {word} (SELECT {inside} FROM {source}{where})"

    def scalar(self, outer: Named) -> str:
        """Draws a comparison with a scalar sub-query."""
        rng = self.rng
        source, inner = self.source("s")
        mine = [c for c in outer[1].cols if c.type in NUMBERS]
        theirs = [c for c in inner[1].cols if c.type in NUMBERS]
        if not mine:
            return "TRUE"
        value = (
            "COUNT(*)"
            if not theirs or rng.random() < 0.4
            else f"{rng.choice(('MIN', 'MAX', 'COUNT'))}(s.{rng.choice(theirs).name})"
        )
        if rng.random() < 0.2:
            value += " + 1"
        where = f" WHERE {self.own(inner)}" if rng.random() < 0.3 else ""
        having = " HAVING COUNT(*) > 1" if rng.random() < 0.1 else ""
        query = f"(SELECT {value} FROM {source}{where}{having})"
        return f"{outer[0]}.{rng.choice(mine).name} {rng.choice(('<', '>=', '='))} {query}"

    def subqueries(self) -> tuple[str, tuple[Col, ...]]:
        rng = self.rng
        source, named = self.source("a")
        visible = [named]
        if rng.random() < 0.2:
            more, other = self.source("b")
            source, visible = f"{source} JOIN {more} ON {self.condition(named, other)}", [named, other]
        items, cols = self.items(visible)
        drawn = [
            rng.choice((self.exists, self.member, self.scalar))(rng.choice(visible))
            for _ in range(rng.choice((1, 1, 2)))
        ]
        if rng.random() < 0.25:
            items += f", {drawn[0]} AS there"
            cols = (*cols, Col("there", "BOOLEAN"))
            del drawn[0]
        if rng.random() < 0.3:
            drawn.append(self.own(visible[0]))
        rng.shuffle(drawn)
        word = " OR " if rng.random() < 0.25 else " AND "
        return f"SELECT {items} FROM {source}" + (f" WHERE {word.join(drawn)}" if drawn else ""), cols

    def tables(self) -> tuple[str, tuple[Col, ...]]:
        """Draws WITH."""
        rng = self.rng
        source, named = self.source("a")
        own = f" WHERE {self.own(named)}" if rng.random() < 0.5 else ""
        first = f"w AS (SELECT * FROM {source}{own})"
        alias, col = named[1].cols[0].name, named[1].cols[0]
        second = f", v(z, n) AS (SELECT {alias}, COUNT(*) FROM w GROUP BY {alias})" if rng.random() < 0.7 else ""
        cols = (Col("z", col.type, col.bits), Col("n", "BIGINT"))
        if second and rng.random() < 0.5:
            return f"WITH {first}{second} SELECT w.{alias} AS z, n FROM w JOIN v ON w.{alias} = z", cols
        if second:
            return f"WITH {first}{second} SELECT z, n FROM v UNION ALL SELECT {alias}, 0 FROM w", cols
        return f"WITH {first} SELECT l.{alias} AS z FROM w AS l LEFT JOIN w AS r ON l.{alias} = r.{alias}", cols[:1]

    def using(self) -> tuple[str, tuple[Col, ...]]:
        """Draws USING: its column without a table's name stands for both, and * has it once, where the left one is."""
        rng = self.rng
        (first, left), (second, right) = self.source("a"), self.source("b")
        names = [c.name for c in right[1].cols]
        common = [c for c in left[1].cols if c.name in names and c in right[1].cols and c.type != "TIMESTAMP"]
        if not common:
            self.sources.clear()  # the oracle takes all of them for inputs
            return self.outer()
        shared = rng.sample(common, min(len(common), rng.choice((1, 1, 2))))
        kind = rng.choice(("", "LEFT ", "RIGHT ", "FULL ", "FULL "))
        text = f"{first} {kind}JOIN {second} USING ({', '.join(c.name for c in shared)})"
        rest = [c for c in right[1].cols if c not in shared]
        if rng.random() < 0.5:
            return f"SELECT * FROM {text}", (*left[1].cols, *rest)
        key = rng.choice(shared)
        cols = (Col("u", key.type, key.bits), Col("v", key.type, key.bits), Col("w", key.type, key.bits))
        where = f" WHERE {key.name} IS NOT NULL" if rng.random() < 0.3 else ""
        return f"SELECT {key.name} AS u, a.{key.name} AS v, b.{key.name} AS w FROM {text}{where}", cols

    def asof(self) -> tuple[str, tuple[Col, ...]]:
        """Draws an ASOF join. DuckDB gets the order among partners of one time, too, which it leaves open."""
        rng = self.rng
        (first, left), (second, right) = self.source("a"), self.source("b")
        pairs = [
            (a.name, b.name)
            for a in left[1].cols
            for b in right[1].cols
            if a.type == b.type and a.type in ("TIMESTAMP", "TIMESTAMP", *NUMBERS)
        ]
        a, b = rng.choice([*pairs, ("ts", "ts"), ("ts", "ts")])
        op = rng.choice((">=", ">=", ">", "<=", "<"))
        parts = [f"a.{a} {op} b.{b}"]
        if rng.random() < 0.7:
            parts.append(self.equality(left, right))
        if rng.random() < 0.2:
            parts.append(self.own(rng.choice((left, right))))
        rng.shuffle(parts)
        word, (items, cols) = rng.choice(("", "LEFT ")), self.items([left, right])
        on = " AND ".join(parts)
        others = ", ".join(f"b.{c.name} ASC NULLS LAST" for c in right[1].cols)
        nearest = f"b.{b} {'DESC' if op[0] == '>' else 'ASC'}, {others}"
        self.sql = (
            f"SELECT {items} FROM (SELECT row_number() OVER () AS _n, * FROM {first.removesuffix(' AS a')}) AS a "
            f"{word}JOIN {second} ON {on} QUALIFY row_number() OVER (PARTITION BY a._n ORDER BY {nearest}) = 1"
        )
        return f"SELECT {items} FROM {first} ASOF {word}JOIN {second} ON {on}", cols


DRAWN = ("outer", "outer", "subqueries", "subqueries", "tables", "asof", "using")


def generate_joins(seed: int, drawn: tuple[str, ...] = DRAWN, kind_of_texts: type[JoinTexts] = JoinTexts) -> App:
    """Draws an app of one or two queries with such joins."""
    rng = Random(f"joins {seed}")
    scale = Scale.draw(rng)
    scale = Scale(scale.unit, scale.base, min(scale.most_rows, 20), scale.dyadic)
    streams = [draw_stream(rng, "s1", scale)]
    alike = streams[0] if drawn == ("using",) else rng.choice((None, streams[0]))
    streams.append(draw_stream(rng, "s2", scale, alike))
    if rng.random() < 0.3:
        streams.append(replace(draw_stream(rng, "t1", scale, rng.choice((None, streams[0]))), table=True, clauses=""))
    names: Iterator[int] = count()
    queries = []
    for _ in range(rng.choice((1, 2))):
        texts = kind_of_texts(rng, scale, streams)
        text, cols = getattr(texts, rng.choice(drawn))()
        kind = rng.choice((None, None, None, None, "ISTREAM", "DSTREAM", "RSTREAM"))
        queries.append(Query(f"q{next(names)}", Text(text, tuple(texts.sources), texts.sql), cols, kind))
    return App(seed, tuple(streams), tuple(queries))

"""Draws bodies with functions OVER (PARTITION BY ... ORDER BY ...), and QUALIFY.

DuckDB gets complete orders: after the drawn keys all columns, then the number of the row, which tells equal rows apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from oracle.join_texts import JoinTexts
from oracle.shapes import Col

DIRECTIONS = ("", "", " DESC", " ASC NULLS FIRST", " DESC NULLS FIRST", " NULLS LAST")
FUNCS = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD")
DEFAULTS = {"BIGINT": "-7", "DOUBLE": "0.5", "STRING": "'none'", "BOOLEAN": "TRUE"}


@dataclass(frozen=True)
class Drawn:
    """A call in both languages, and its column."""

    cql: str
    sql: str
    col: Col


class OverTexts(JoinTexts):
    def call(self, columns: list[tuple[str, Col]], ties: str, name: str) -> Drawn:
        """Draws a call over columns, given as texts. `ties` completes the order for DuckDB."""
        rng = self.rng
        func = rng.choice(FUNCS)
        by = [text for text, _ in rng.sample(columns, min(len(columns), rng.choice((0, 0, 1, 1, 2))))]
        keys = [text for text, _ in rng.sample(columns, min(len(columns), rng.choice((0, 1, 1, 2))))]
        keys = [rng.choice((text, text, text, f"{text} IS NULL")) + rng.choice(DIRECTIONS) for text in keys]
        part = f"PARTITION BY {', '.join(by)}" if by else ""
        drawn = f" ORDER BY {', '.join(keys)}" if keys else ""
        whole = f" ORDER BY {', '.join([*keys, ties])}"
        if func in ("RANK", "DENSE_RANK"):  # DuckDB 2.0 crashes on some of these without ORDER BY
            whole = drawn or f" ORDER BY {ties.rpartition(', ')[2]} IS NULL AND FALSE"
        col, args = Col(name, "BIGINT", 10), ""
        if func in ("LAG", "LEAD"):
            text, of = rng.choice(columns)
            col, args = Col(name, of.type, of.bits, of.dyadic), text
            same = [t for t, c in columns if c.type == of.type]
            if rng.random() < 0.6:
                args += f", {rng.choice((0, 1, 2, 3))}"
                if rng.random() < 0.6:
                    args += f", {rng.choice([*same, DEFAULTS.get(of.type, 'NULL'), 'NULL'])}"
        more = " + 1" if col.type == "BIGINT" and col.bits < 40 and rng.random() < 0.15 else ""
        return Drawn(*(f"{func}({args}) OVER ({part}{order}){more}" for order in (drawn, whole)), col)

    def qualify(self, calls: list[Drawn], other: str) -> tuple[str, str]:
        """Draws QUALIFY in both languages."""
        rng = self.rng
        numbers = [call for call in calls if call.col.type == "BIGINT"]
        if not numbers or rng.random() < 0.5:
            return "", ""
        call = rng.choice(numbers)
        compared = f" {rng.choice(('<=', '<', '=', '>', '<>'))} {rng.choice((1, 1, 2, 3))}"
        named = rng.random() < 0.6
        more = f" {rng.choice(('AND', 'OR'))} {other}" if rng.random() < 0.3 else ""
        cql, sql = (f" QUALIFY {call.col.name if named else text}{compared}{more}" for text in (call.cql, call.sql))
        return cql, sql

    def numbered(self) -> tuple[str, tuple[Col, ...]]:
        """Draws calls over the rows of FROM."""
        rng = self.rng
        text, named = self.source("a")
        visible, joined = [named], ""
        if rng.random() < 0.25:
            more, other = self.source("b")
            joined = f" {rng.choice(('', 'LEFT '))}JOIN {{}} ON {self.condition(named, other)}"
            visible.append(other)
            texts = [text, more]
        else:
            texts = [text]
        every = [(f"{alias}.{c.name}", c) for alias, source in visible for c in source.cols]
        ties = ", ".join([*(column for column, _ in every), *(f"{alias}._n" for alias, _ in visible)])
        calls = [self.call(every, ties, f"r{i}") for i in range(rng.choice((1, 1, 2, 3)))]
        shown = rng.sample(every, rng.randint(0, len(every)))
        cols = [Col(f"x{i}", c.type, c.bits, c.dyadic) for i, (_, c) in enumerate(shown)]
        items = [f"{column} AS x{i}" for i, (column, _) in enumerate(shown)]
        where = f" WHERE {self.own(rng.choice(visible))}" if rng.random() < 0.25 else ""
        word = rng.choice(("", "", "", "DISTINCT "))
        qualify = self.qualify(calls, self.own(rng.choice(visible)))
        found: list[str] = []
        for sql in (False, True):
            listed = ", ".join([*items, *(f"{c.sql if sql else c.cql} AS {c.col.name}" for c in calls)])
            sources = [_with_numbers(t) if sql else t for t in texts]
            source = sources[0] + (joined.replace("{}", sources[1]) if joined else "")
            found.append(f"SELECT {word}{listed} FROM {source}{where}{qualify[sql]}")
        self.sql = found[1]
        return found[0], (*cols, *(call.col for call in calls))

    def lists(self) -> tuple[str, tuple[Col, ...]]:
        """Draws `list`, as text: the results of random apps have plain types."""
        rng = self.rng
        text, (_, source) = self.source("a")
        keys = rng.sample(source.cols, min(len(source.cols), rng.choice((0, 1, 1, 2))))
        every = [f"a.{c.name}" for c in source.cols]
        order = [rng.choice(every) + rng.choice(DIRECTIONS) for _ in range(rng.choice((0, 1, 1, 2)))]
        where = f" FILTER (WHERE {self.own(('a', source))})" if rng.random() < 0.3 else ""
        name, arg = rng.choice(("list", "array_agg")), rng.choice(every)
        found: list[str] = []
        for complete in ([], every):
            ordered = f" ORDER BY {', '.join([*order, *complete])}" if order or complete else ""
            listed = f"{name}({arg}{ordered}){where}"
            items = [*(f"a.{key.name} AS x{i}" for i, key in enumerate(keys)), f"CAST({listed} AS STRING) AS l"]
            items.append(f"len({listed}) AS n")
            grouped = f" GROUP BY {', '.join(f'a.{key.name}' for key in keys)}" if keys else ""
            having = "" if keys or not complete else " HAVING COUNT(*) > 0"
            found.append(f"SELECT {', '.join(items)} FROM {text}{grouped}{having}")
        self.sql = found[1].replace("AS STRING", "AS VARCHAR")
        cols = [Col(f"x{i}", key.type, key.bits, key.dyadic) for i, key in enumerate(keys)]
        return found[0], (*cols, Col("l", "STRING"), Col("n", "BIGINT", 10))

    def ranked_groups(self) -> tuple[str, tuple[Col, ...]]:
        """Draws calls over groups."""
        rng = self.rng
        text, (_, source) = self.source("a")
        keys = rng.sample(source.cols, min(len(source.cols), rng.choice((1, 1, 2))))
        arg = rng.choice(source.cols)
        columns = [(f"a.{key.name}", key) for key in keys]
        columns += [("COUNT(*)", Col("n", "BIGINT", 10)), (f"MAX(a.{arg.name})", arg)]
        ties = ", ".join(column for column, _ in columns)
        calls = [self.call(columns, ties, f"r{i}") for i in range(rng.choice((1, 2)))]
        shown = [f"{column} AS x{i}" for i, (column, _) in enumerate(columns)]
        cols = [Col(f"x{i}", c.type, c.bits, c.dyadic) for i, (_, c) in enumerate(columns)]
        having = " HAVING COUNT(*) > 1" if rng.random() < 0.3 else ""
        qualify = self.qualify(calls, "COUNT(*) < 3")
        found: list[str] = []
        for sql in (False, True):
            listed = ", ".join([*shown, *(f"{c.sql if sql else c.cql} AS {c.col.name}" for c in calls)])
            by = ", ".join(column for column, _ in columns[: len(keys)])
            found.append(f"SELECT {listed} FROM {text} GROUP BY {by}{having}{qualify[sql]}")
        self.sql = found[1]
        return found[0], (*cols, *(call.col for call in calls))


def _with_numbers(source: str) -> str:
    table, _, alias = source.rpartition(" AS ")
    return f"(SELECT row_number() OVER () AS _n, * FROM {table}) AS {alias}"

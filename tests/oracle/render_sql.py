"""Writes the queries as DuckDB's SQL in two forms: plain, for one instant, and batched, for all instants at once.

Both read tables `w0`, `w1`, ... with the content of each windowed stream, columns c0, c1, ... In the batched form each
table has another column `_i`, the number of the instant. Joins equate it, aggregates group by it, and it is a column
like any other to DISTINCT and the set operations; so each instant is answered as if it were alone. The two forms are
checked against each other.
"""

from __future__ import annotations

from collections.abc import Callable

from oracle.shapes import (
    Agg,
    App,
    Body,
    Expr,
    First,
    Named,
    Part,
    Ref,
    Select,
    SetOp,
    Source,
    Text,
    Windowed,
    windows_of,
)

DUCKDB_TYPES = {
    "BOOLEAN": "BOOLEAN",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "VARCHAR",
    "TIMESTAMP": "TIMESTAMP",
}
Table = Callable[[Windowed], str]


class Sql:
    """Writes the bodies of one app. `table` returns the table name of a windowed stream."""

    def __init__(self, app: App, table: Table, batched: bool) -> None:
        self.app, self.table, self.batched = app, table, batched

    def body(self, body: Body) -> str:
        if isinstance(body, SetOp):
            return f"({self.body(body.left)}) {body.op} ({self.body(body.right)})"
        if isinstance(body, Text):
            return (body.sql or body.template).format(*(self._named(source) for source in body.sources))
        return self._select(body)

    def _named(self, source: Windowed) -> str:
        names = ", ".join(f'c{k} AS "{c.name}"' for k, c in enumerate(source.cols))
        return f"(SELECT {names} FROM {self.table(source)})"

    def _select(self, s: Select) -> str:
        return self._all_rows(s) if s.first is None else self._first(s, s.first)

    def _first(self, s: Select, first: First) -> str:
        """Writes the first rows: all columns break ties, and the batched form numbers the rows of each instant."""
        count = len(s.items)
        order = [f"c{k}{words or ' ASC'}" for k, words in first.order] + [f"c{k} ASC NULLS LAST" for k in range(count)]
        by = ", ".join([f"c{k}" for k in first.by] + (["_i"] if self.batched else []))
        over = f"{f'PARTITION BY {by} ' if by else ''}ORDER BY {', '.join(order)}"
        number = f"ROW_NUMBER() OVER ({over})"
        kept = ", ".join((["_i"] if self.batched else []) + [f"c{k}" for k in range(count)])
        below = f"_n > {first.offset} AND _n <= {first.offset + first.limit}"
        return f"SELECT {kept} FROM (SELECT *, {number} AS _n FROM ({self._all_rows(s)})) WHERE {below}"

    def _all_rows(self, s: Select) -> str:
        exprs = [f"CAST({text(e)} AS {DUCKDB_TYPES[e.type]}) AS c{k}" for k, (e, _) in enumerate(s.items)]
        distinct = "DISTINCT " if s.distinct else ""
        source = self._from(s)
        where = self._where(s)
        having = f" HAVING {text(s.having)}" if s.having is not None else ""
        if s.is_global:
            return self._global(s, exprs, source, where)
        group = [text(g) for g in s.group]
        if self.batched:
            exprs = ["t0._i AS _i", *exprs]
            group = ["t0._i", *group] if group else []
        tail = f" GROUP BY {', '.join(group)}" if group else ""
        return f"SELECT {distinct}{', '.join(exprs)} FROM {source} WHERE {where}{tail}{having}"

    def _global(self, s: Select, exprs: list[str], source: str, where: str) -> str:
        """Writes a global aggregate: SQL's one row, but only while a windowed stream below holds a tuple."""
        tables = sorted({self.table(w) for w in windows_of(self.app, s)})
        having = f"({text(s.having)})" if s.having is not None else "TRUE"
        select = ", ".join(exprs)
        if not self.batched:
            present = " OR ".join(f"EXISTS (SELECT 1 FROM {t})" for t in tables)
            return f"SELECT * FROM (SELECT {select} FROM {source} WHERE {where} HAVING {having}) WHERE {present}"
        some = f"SELECT t0._i AS _i, {select} FROM {source} WHERE {where} GROUP BY t0._i HAVING {having}"
        present = " UNION ".join(f"SELECT _i FROM {t}" for t in tables)
        empty = f"({present}) EXCEPT (SELECT t0._i FROM {source} WHERE {where})"
        none = f"SELECT {select} FROM {source} WHERE FALSE HAVING {having}"
        return f"({some}) UNION ALL (SELECT p._i, n.* FROM ({empty}) AS p, ({none}) AS n)"

    def _from(self, s: Select) -> str:
        out = f"{self._source(s.sources[0])} AS t0"
        for k, (source, on) in enumerate(zip(s.sources[1:], s.ons, strict=True), 1):
            out += (
                f", {self._source(source)} AS t{k}"
                if on is None
                else f" JOIN {self._source(source)} AS t{k} ON ({text(on)})"
            )
        return out

    def _where(self, s: Select) -> str:
        tests = [f"({text(s.where)})"] if s.where is not None else []
        if self.batched:
            tests += [f"t{k}._i = t0._i" for k in range(1, len(s.sources))]
        return " AND ".join(tests) or "TRUE"

    def _source(self, source: Source) -> str:
        if isinstance(source, Windowed):
            return self.table(source)
        if isinstance(source, Named):
            return f"({self.body(self.app.query(source.query).body)})"
        return f"({self.body(source.body)})"


def text(e: Expr) -> str:
    return "".join(_part(p) for p in e.parts)


def _part(p: Part) -> str:
    if isinstance(p, Ref):
        return f"t{p.item}.c{p.col}"
    if isinstance(p, Agg):
        return f"CAST({_call(p)} AS {DUCKDB_TYPES[p.type]})"
    return p


def _call(a: Agg) -> str:
    """Writes an aggregate; those that depend on an order with the complete one: what the user wrote, then all columns.
    `t0._b` is the number of the instant at which a tuple of a window was born."""
    where = [] if a.where is None else [f"({text(a.where)})"]
    arg = "*" if a.arg is None else f"CAST({text(a.arg)} AS {DUCKDB_TYPES[a.arg.type]})"
    func, args = a.func, [arg, *(m for m in a.more if isinstance(m, str))]
    order = [f"{text(e)}{words}" for e, words in a.order]
    if func in ("ARG_MIN", "ARG_MAX"):
        (by,) = a.more
        assert not isinstance(by, str)
        order = [f"{text(by)}{' DESC' if func == 'ARG_MAX' else ''} NULLS LAST"]
        where += [f"{arg} IS NOT NULL", f"({text(by)}) IS NOT NULL"]
        func = "FIRST"
    elif func in ("FIRST", "LAST") and not order:
        order = ["t0._b"]
    order += [f"{text(e)} NULLS LAST" for e in a.complete]
    inside = f"{'DISTINCT ' if a.distinct else ''}{', '.join(args)}" + (
        f" ORDER BY {', '.join(order)}" if order else ""
    )
    return f"{func}({inside})" + (f" FILTER (WHERE {' AND '.join(where)})" if where else "")

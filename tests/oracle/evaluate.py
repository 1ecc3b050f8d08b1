"""The oracle: computes the answer of an app by brute force. A loop gives the lifetimes, then DuckDB evaluates the query
over the live tuples at every instant at which anything changes.

Cost: `Oracle` asks for all instants in one statement per query. `relation_plainly` runs one statement per instant, to
check the former.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from oracle.render_sql import DUCKDB_TYPES, Sql
from oracle.shapes import App, Body, Col, Query, Row, Text, Windowed, end_of, windows_of
from oracle.windows import Interval, Tuple, lifetimes, tie_order

Bag = Counter[Row]
ARROW = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us"),
}


@dataclass
class Relation:
    """The bag from each instant to the next; empty before the first."""

    instants: list[int]
    bags: list[Bag]

    def at(self, t: int) -> Bag:
        place = bisect.bisect_right(self.instants, t) - 1
        return self.bags[place] if place >= 0 else Counter()


def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    return con


class Oracle:
    """Computes the answers of one app. Results are kept, so queries that read queries are computed once."""

    def __init__(self, app: App, con: duckdb.DuckDBPyConnection | None = None) -> None:
        self.app = app
        self.con = con if con is not None else connection()
        self._relations: dict[tuple[str, int], Relation] = {}
        self._streams: dict[tuple[str, int], list[Tuple]] = {}
        self._intervals: dict[tuple[Windowed, int], list[Interval]] = {}

    # --- what the comparison needs ------------------------------------------------------------------------------------

    def end(self, query: Query) -> int | None:
        return end_of(self.app, query)

    def relation(self, query: Query, upto: int | None = None) -> Relation:
        """Returns the relation of the query (below ISTREAM and the like), up to the end of its inputs."""
        end = self.end(query) if upto is None else upto
        if end is None:
            return Relation([], [])
        key = (query.name, end)
        if key not in self._relations:
            self._relations[key] = self._evaluate(query.body, query.cols, end)
        return self._relations[key]

    def stream(self, query: Query, upto: int | None = None) -> list[Tuple]:
        """Returns the tuples of a stream query, in the order in which another query reads them."""
        end = self.end(query) if upto is None else upto
        if end is None:
            return []
        key = (query.name, end)
        if key not in self._streams:
            self._streams[key] = tie_order(to_stream(query, self.relation(query, end), end))
        return self._streams[key]

    def intervals(self, window: Windowed, upto: int) -> list[Interval]:
        """Returns the lifetimes of a windowed stream whose births are seen up to `upto`."""
        key = (window, upto)
        if key not in self._intervals:
            declared = self.app.stream(window.source)
            if declared is not None:
                tuples = list(zip(declared.times, declared.accepted, strict=True))
            else:
                tuples = self.stream(self.app.query(window.source), upto)
            self._intervals[key] = lifetimes(window.window, tuples)
        return self._intervals[key]

    # --- by all instants at once --------------------------------------------------------------------------------------

    def instants(self, body: Body, upto: int) -> list[int]:
        events: set[int] = set()
        for window in windows_of(self.app, body):
            for _, born, dies in self.intervals(window, upto):
                events.update(t for t in (born, dies) if t is not None and t <= upto)
        return sorted(events)

    def _evaluate(self, body: Body, cols: Sequence[Col], upto: int) -> Relation:
        instants = self.instants(body, upto)
        windows = list(dict.fromkeys(windows_of(self.app, body)))
        names = {w: f"w{k}" for k, w in enumerate(windows)}
        if isinstance(body, Text):
            return self._evaluate_text(body, cols, names, instants, upto)
        ctes = []
        for w, name in names.items():
            self.con.register(f"alive_{name}", self._ranges(w, instants, upto))
            kept = ", ".join(f"c{k}" for k in range(len(w.cols)))
            rows = f"SELECT unnest(range(_lo, _hi)) AS _i, _lo AS _b, {kept} FROM alive_{name}"
            ctes.append(f"{name} AS MATERIALIZED ({rows})")
        sql = Sql(self.app, names.__getitem__, batched=True).body(body)
        shown = "".join(f", {plain_value(f'c{k}', c.type)}" for k, c in enumerate(cols))
        rows = self.con.execute(f"WITH {', '.join(ctes)} SELECT _i{shown} FROM ({sql})").fetchall()
        for name in names.values():
            self.con.unregister(f"alive_{name}")
        bags: list[Bag] = [Counter() for _ in instants]
        for row in rows:
            bags[row[0]][row[1:]] += 1
        return Relation(instants, bags)

    def _evaluate_text(
        self, body: Text, cols: Sequence[Col], names: dict[Windowed, str], instants: list[int], upto: int
    ) -> Relation:
        """Asks for one instant after the other: a text cannot be written for all of them at once."""
        for w, name in names.items():
            self.con.register(f"alive_{name}", self._ranges(w, instants, upto))
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE all_{name} AS FROM alive_{name}")
            self.con.unregister(f"alive_{name}")
        kept = {w: ", ".join(f"c{k}" for k in range(len(w.cols))) for w in names}
        sql = Sql(
            self.app,
            lambda w: f"(SELECT {kept[w]} FROM all_{names[w]} WHERE _lo <= $at AND $at < _hi)",
            batched=False,
        ).body(body)
        shown = ", ".join(plain_value(f"c{k}", c.type) for k, c in enumerate(cols))
        aliases = ", ".join(f"c{k}" for k in range(len(cols)))
        asked = f"SELECT {shown} FROM ({sql}) AS _all({aliases})"
        return Relation(
            instants,
            [Counter(self.con.execute(asked.replace("$at", str(i))).fetchall()) for i in range(len(instants))],
        )

    def _ranges(self, window: Windowed, instants: Sequence[int], upto: int) -> pa.Table:
        """Returns the windowed tuples, each with the range of instants (as numbers) at which it is alive."""
        intervals = [i for i in self.intervals(window, upto) if i[1] <= upto]
        columns = {
            f"c{k}": pa.array([row[k] for row, _, _ in intervals], ARROW[c.type]) for k, c in enumerate(window.cols)
        }
        columns["_lo"] = pa.array([bisect.bisect_left(instants, born) for _, born, _ in intervals], pa.int64())
        deaths = [len(instants) if dies is None else bisect.bisect_left(instants, dies) for _, _, dies in intervals]
        columns["_hi"] = pa.array(deaths, pa.int64())
        return pa.table(columns)

    # --- one instant at a time ----------------------------------------------------------------------------------------

    def alive(self, body: Body, t: int, upto: int) -> dict[Windowed, list[Row]]:
        return {
            w: [row for row, born, dies in self.intervals(w, upto) if born <= t and (dies is None or t < dies)]
            for w in windows_of(self.app, body)
        }

    def relation_plainly(self, query: Query) -> Relation:
        end = self.end(query)
        if end is None:
            return Relation([], [])
        instants = self.instants(query.body, end)
        return Relation(instants, [self._at(query, t, end) for t in instants])

    def _at(self, query: Query, t: int, upto: int) -> Bag:
        held = self.alive(query.body, t, upto)
        names = {w: f"p{k}" for k, w in enumerate(held)}
        for w, rows in held.items():
            columns = ", ".join(f"c{k} {DUCKDB_TYPES[c.type]}" for k, c in enumerate(w.cols))
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE {names[w]} ({columns})")
            if rows:
                marks = ", ".join("make_timestamp(?::BIGINT)" if c.type == "TIMESTAMP" else "?" for c in w.cols)
                self.con.executemany(f"INSERT INTO {names[w]} VALUES ({marks})", rows)
        shown = ", ".join(plain_value(f"c{k}", c.type) for k, c in enumerate(query.cols))
        aliases = ", ".join(f"c{k}" for k in range(len(query.cols)))
        sql = Sql(self.app, names.__getitem__, batched=False).body(query.body)
        return Counter(self.con.execute(f"SELECT {shown} FROM ({sql}) AS _all({aliases})").fetchall())


def plain_value(column: str, kind: str) -> str:
    return f"epoch_us({column})" if kind == "TIMESTAMP" else column


def to_stream(query: Query, relation: Relation, end: int) -> list[Tuple]:
    """Computes ISTREAM, DSTREAM, RSTREAM or RSTREAM[n]: the tuples and their times."""
    found: list[Tuple] = []
    if query.every_us is not None and relation.instants:
        t = -(-relation.instants[0] // query.every_us) * query.every_us
        while t <= end:
            found += [(t, row) for row in relation.at(t).elements()]
            t += query.every_us
        return found
    before: Bag = Counter()
    for t, now in zip(relation.instants, relation.bags, strict=True):
        if query.kind == "ISTREAM":
            found += [(t, row) for row in (now - before).elements()]
        elif query.kind == "DSTREAM":
            found += [(t, row) for row in (before - now).elements()]
        elif query.every_us is None and now != before:
            found += [(t, row) for row in now.elements()]
        before = now
    return found

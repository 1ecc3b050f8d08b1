"""The parts of a random app: one structure from which both the CQL text and DuckDB's SQL are written.

Invariant: an expression is a sequence of text, column references and aggregate calls. The text is the same in both
languages, so both mean the same, and neither needs a parser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FIRST_US = -62_135_596_800_000_000  # the year 1: when rows of tables are born
Row = tuple[Any, ...]  # None, bool, int, float, str; a TIMESTAMP is an int of microseconds since the epoch


@dataclass(frozen=True)
class Col:
    """A column. `bits` bounds the size of a number. `dyadic`: sums of the doubles are exact in any order. `noisy`: the
    last bits depend on the order of evaluation, so the value must not be compared."""

    name: str
    type: str
    bits: int = 8
    dyadic: bool = True
    noisy: bool = False


@dataclass(frozen=True)
class Ref:
    """Column `col` of the FROM item number `item`."""

    item: int
    col: int
    qualified: bool = True


@dataclass(frozen=True)
class Agg:
    """An aggregate call; `arg` None is COUNT(*). `type` is that of the result: DuckDB's own would be wider (HUGEINT).
    `more` are further arguments, as text or (arg_min) as an expression. `complete` are all columns of the inputs, which
    break ties."""

    func: str
    arg: Expr | None
    type: str
    distinct: bool = False
    more: tuple[str | Expr, ...] = ()
    order: tuple[tuple[Expr, str], ...] = ()  # (expression, words after it)
    where: Expr | None = None  # FILTER
    complete: tuple[Expr, ...] = ()


Part = str | Ref | Agg


@dataclass(frozen=True)
class Expr:
    type: str
    parts: tuple[Part, ...]
    bits: int = 8
    dyadic: bool = True
    noisy: bool = False


@dataclass(frozen=True)
class Window:
    """A window. `kind` is RANGE, ROWS, PARTITION, SESSION, UNTIL, NOW or UNBOUNDED; `size` is in microseconds or rows;
    `until` is the column of UNTIL; `text` is what the brackets contain."""

    kind: str
    text: str
    size: int = 0
    slide: int | None = None
    partition: tuple[int, ...] = ()
    until: int = -1


@dataclass(frozen=True)
class Windowed:
    source: str  # a stream, or a query that gives a stream
    window: Window
    alias: str | None
    cols: tuple[Col, ...]


@dataclass(frozen=True)
class Named:
    query: str  # a query that gives a relation
    alias: str | None
    cols: tuple[Col, ...]


@dataclass(frozen=True)
class Derived:
    body: Body
    alias: str
    cols: tuple[Col, ...]


Source = Windowed | Named | Derived


@dataclass(frozen=True)
class First:
    """ORDER BY ... LIMIT: output columns with the words after them, the number of rows, and the columns of LIMIT n
    BY."""

    order: tuple[tuple[int, str], ...]
    limit: int
    offset: int = 0
    by: tuple[int, ...] = ()


@dataclass(frozen=True)
class Select:
    items: tuple[tuple[Expr, str | None], ...]  # None: the bare column's own name
    sources: tuple[Source, ...]
    ons: tuple[Expr | None, ...] = ()  # for sources 1..: None after a comma, else the ON of a JOIN
    where: Expr | None = None
    group: tuple[Expr, ...] = ()
    having: Expr | None = None
    distinct: bool = False
    star: bool = False
    aggregated: bool = False
    first: First | None = None

    @property
    def is_global(self) -> bool:
        return self.aggregated and not self.group


@dataclass(frozen=True)
class SetOp:
    op: str  # UNION ALL, EXCEPT, EXCEPT ALL, INTERSECT, INTERSECT ALL
    left: Body
    right: Body
    cols: tuple[Col, ...]


@dataclass(frozen=True)
class Text:
    """A body as text that means the same in both languages, with `{0}`, `{1}`, ... in place of its windowed streams.
    `cql` replaces the text where CQL writes something else, as for the names of tables."""

    template: str
    sources: tuple[Windowed, ...]
    sql: str | None = None  # DuckDB's text, where it must say more than CQL


Body = Select | SetOp | Text


@dataclass(frozen=True)
class Stream:
    name: str
    cols: tuple[Col, ...]
    ts: int  # the column of TIMESTAMP BY
    rows: tuple[Row, ...]  # in file order: timestamp order up to the lateness, except late rows
    clauses: str = ""
    lateness_us: int = 0
    table: bool = False  # CREATE TABLE: all rows are alive at all times

    @property
    def accepted(self) -> list[Row]:
        """Returns the rows that are not late, in the order of time. A row is late if an earlier row of the file has a
        timestamp more than the lateness ahead."""
        if self.table:
            return list(self.rows)
        kept: list[Row] = []
        newest: int | None = None
        for row in self.rows:
            if newest is None or row[self.ts] >= newest - self.lateness_us:
                kept.append(row)
            newest = row[self.ts] if newest is None else max(newest, row[self.ts])
        return sorted(kept, key=lambda row: row[self.ts])  # stable: equal times stay in file order

    @property
    def times(self) -> list[int]:
        return [self.time_of(row) for row in self.accepted]

    def time_of(self, row: Row) -> int:
        return FIRST_US if self.table else row[self.ts]


@dataclass(frozen=True)
class Query:
    name: str
    body: Body
    cols: tuple[Col, ...]
    kind: str | None = None  # ISTREAM, DSTREAM, RSTREAM; None: a relation
    every_us: int | None = None
    every_text: str = ""
    clauses: str = ""
    readable: bool = True  # another query may read it: unique names, nothing noisy
    card: float = 1.0  # rough bound on the live rows (relation) or on all rows (stream)


@dataclass(frozen=True)
class App:
    seed: int
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    remarks: tuple[str, ...] = field(default=())

    def stream(self, name: str) -> Stream | None:
        return next((s for s in self.streams if s.name == name), None)

    def query(self, name: str) -> Query:
        return next(q for q in self.queries if q.name == name)


def sources_of(body: Body) -> list[Source]:
    """Returns the FROM items of a body, those of nested sub-queries included."""
    if isinstance(body, SetOp):
        return sources_of(body.left) + sources_of(body.right)
    if isinstance(body, Text):
        return list(body.sources)
    found: list[Source] = []
    for source in body.sources:
        found.append(source)
        if isinstance(source, Derived):
            found.extend(sources_of(source.body))
    return found


def windows_of(app: App, body: Body) -> list[Windowed]:
    """Returns the windowed streams of a body, through sub-queries and relations read by name, but not below a
    window."""
    found: list[Windowed] = []
    for source in sources_of(body):
        if isinstance(source, Windowed):
            found.append(source)
        elif isinstance(source, Named):
            found.extend(windows_of(app, app.query(source.query).body))
    return found


def streams_of(app: App, body: Body) -> set[str]:
    """Returns the declared streams that a body reads directly or indirectly."""
    found: set[str] = set()
    for window in windows_of(app, body):
        if app.stream(window.source) is not None:
            found.add(window.source)
        else:
            found |= streams_of(app, app.query(window.source).body)
    return found


def end_of(app: App, query: Query) -> int | None:
    """Returns the last timestamp of the query's inputs; None if they are all empty."""
    names = streams_of(app, query.body)
    return max((t for s in app.streams if s.name in names and not s.table for t in s.times), default=None)

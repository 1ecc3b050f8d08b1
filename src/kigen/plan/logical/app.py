"""Defines what an app file declares: connectors, streams, queries, and the app itself."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kigen.language.errors import CqlWarning
from kigen.plan.logical.functions import Function
from kigen.plan.logical.node import PlanNode
from kigen.plan.logical.streams import Scan
from kigen.plan.logical.terms import Expr
from kigen.plan.types import Schema

if TYPE_CHECKING:
    from kigen.plan.tasks import Task

LINK = "link"  # the connector between nodes; app files cannot name it
LINES, CHANGES, UPSERTS = "lines", "changes", "upserts"  # what a query can give (kigen.lifetimes.results)
_GIVES = {"append": LINES, "changes": CHANGES, "upsert": UPSERTS, "current": UPSERTS}  # by the mode of INTO


@dataclass(frozen=True)
class Connector:
    """`FROM csv (path = ...)` or `INTO parquet (...)`: options as written, values str, int, float or bool."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, key: str, default: Any = None) -> Any:
        return dict(self.options).get(key, default)


def columns_of(schema: Schema, names: str) -> tuple[int, ...]:
    """Returns the columns that an option such as `key = 'a, b'` names, in any case."""
    places = {column.name.lower(): i for i, column in reversed(list(enumerate(schema)))}
    return tuple(places[name.strip().lower()] for name in names.split(",") if name.strip())


@dataclass(frozen=True)
class Shed:
    """The load shedder of a stream: `SHED ABOVE n PER SECOND [BY expr] [INTO connector]`."""

    above_per_second: float
    by: Expr | None = None
    into: Connector | None = None


@dataclass(frozen=True)
class SourceStream:
    """A stream that the app declares and a connector feeds."""

    name: str
    schema: Schema
    source: Connector
    timestamp: int | None = None  # column of TIMESTAMP BY
    lateness_us: int = 0
    on_error_skip: bool = False
    shed: Shed | None = None
    buffer: int | None = None
    ahead_us: int | None = None  # how far ahead a row may be dated; None: an hour for live streams, any time for files
    idle_us: int | None = None  # a partition that is silent for so long does not hold up the watermark; None: it does
    table: bool = False  # CREATE TABLE: its rows are read at the start and are alive at all times
    key: tuple[int, ...] = ()  # of a table: no two rows agree in these columns
    refresh_us: int | None = None  # of a table
    error_into: Connector | None = None  # of ON ERROR INTO
    late_into: Connector | None = None  # of LATE INTO
    # Of a stream that a change of the app made for the queries that it added: it reads what another stream reads, from
    # another place on, without the tuples before `since_us`.
    copy_of: str | None = None
    since_us: int | None = None
    added_by: int = field(default=0, compare=False)  # number of the change that added it

    @property
    def changes(self) -> bool:
        """Returns whether it is a table that may have other rows later: by REFRESH, or because it is a changelog."""
        return self.table and (self.refresh_us is not None or self.source.name == "kafka")

    def __repr__(self) -> str:
        """Keeps the class's first name: a stored placement is recognized by a digest of this text. A clause that older
        versions did not have is left out if the stream does not use it."""
        later = {f.name for f in fields(self)[9:] if getattr(self, f.name) == f.default or not f.compare}
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in later)
        return f"Stream({values})"


@dataclass(frozen=True)
class Query:
    name: str
    root: PlanNode
    deadline_us: int | None = None
    firm: bool = False
    cost_us: int | None = None
    into: Connector | None = None
    level: int = 0  # of a node's own queries: the most links that lie below it
    also: tuple[str, ...] = field(default=(), repr=False)  # what a run gives beside what INTO takes
    added_by: int = field(default=0, repr=False, compare=False)  # number of the change that added it
    # FIRM, of what a node sends: after so long a tuple cannot be in time at its last node. None: after the deadline.
    drop_us: int | None = field(default=None, repr=False)

    @property
    def schema(self) -> Schema:
        return self.root.schema

    @property
    def sharing_group(self) -> tuple[int | None, int | None, int]:
        """Returns the group of queries that this query may share state with: queries of different groups share nothing.
        A query with a FIRM deadline may lack tuples that others hold. A task would wait for itself if a query of a
        higher level waited for what another node computes from the results of a lower one."""
        return *((self.deadline_us, self.drop_us) if self.firm else (None, None)), self.level

    @property
    def sent(self) -> bool:
        """Returns whether its results go to another node, as rows of a queue (kigen.lifetimes.exchange.sent), not as
        lines."""
        return self.into is not None and self.into.name == LINK

    @property
    def mode(self) -> str:
        """Returns how INTO writes the results: append, changes, upsert or current."""
        return "append" if self.into is None else str(self.into.option("mode", "append"))

    @property
    def key(self) -> tuple[int, ...]:
        """Returns the columns that `key` of INTO names: at any instant, at most one row has each of their values."""
        return () if self.into is None else columns_of(self.schema, str(self.into.option("key", "")))

    @property
    def gives(self) -> dict[str, str]:
        """Returns what the query gives, with the name of each output. What INTO takes comes first and has the name of
        the query; the name of another output contains a slash, so that no query can have it."""
        first = _GIVES[self.mode]
        return {first: self.name} | {kind: f"{self.name}/{kind}" for kind in self.also if kind != first}

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({n.stream for n in self.root.walk() if isinstance(n, Scan)}))


@dataclass(frozen=True)
class App:
    streams: tuple[SourceStream, ...]
    queries: tuple[Query, ...]
    directory: str = "."  # of the app file: relative paths start there
    # Nodes that exchange tuples number their operators from different numbers, so that holders stay distinct.
    first_number: int = 0
    replicated: bool = False  # another replica computes the same: order of rows and holders must be the same
    secret: int = field(default=0, repr=False)  # salts the hashes of keys, so that nobody can craft rows that collide
    sharing: bool = True  # whether joins that differ in their windows share work; off only to measure its effect
    functions: tuple[Function, ...] = field(default=(), repr=False)  # expressions name them with their digests
    warnings: tuple[CqlWarning, ...] = field(default=(), compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)  # with included files and values of parameters
    # The tasks that run, with their plans, of an app on a checkpoint; empty: as `extract_tasks` groups the queries.
    tasks: tuple[Task, ...] = field(default=(), compare=False, repr=False)

    def stream(self, name: str) -> SourceStream:
        return self._streams[name]

    @cached_property
    def _streams(self) -> dict[str, SourceStream]:
        return {stream.name: stream for stream in self.streams}

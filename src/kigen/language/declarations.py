"""Declarations of an app file as parsed: names are unresolved, queries are sqlglot trees, and each part has its
place."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError

OptionValue = str | int | float | bool
TYPES_HINT = (
    "write BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, DATE, TIME, UUID, BLOB, DECIMAL(p, s), type[] or "
    "STRUCT(name type, ...)"
)


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class ColumnDecl:
    name: Name
    type: Name


@dataclass(frozen=True)
class OptionDecl:
    key: Name
    value: OptionValue
    span: Span  # of the value


@dataclass(frozen=True)
class ConnectorDecl:
    name: Name
    options: tuple[OptionDecl, ...]


@dataclass(frozen=True)
class ShedDecl:
    above_per_second: float
    by: exp.Expr | None = None
    into: ConnectorDecl | None = None


@dataclass(frozen=True)
class StreamDecl:
    name: Name
    columns: tuple[ColumnDecl, ...]
    timestamp: Name | None = None
    source: ConnectorDecl | None = None
    lateness_us: int = 0
    on_error_skip: bool = False
    shed: ShedDecl | None = None
    buffer: int | None = None
    ahead_us: int | None = None
    idle_us: int | None = None
    error_into: ConnectorDecl | None = None
    late_into: ConnectorDecl | None = None


@dataclass(frozen=True)
class TableDecl:
    name: Name
    columns: tuple[ColumnDecl, ...]
    source: ConnectorDecl | None = None
    key: tuple[Name, ...] = ()
    refresh_us: int | None = None


@dataclass(frozen=True)
class FunctionDecl:
    name: Name
    parameters: tuple[ColumnDecl, ...]
    returns: Name
    target: Name  # 'module:function'


@dataclass(frozen=True)
class WindowDecl:
    """A window after a table name. `kind` is RANGE, ROWS, PARTITION, SESSION, UNTIL, NOW or UNBOUNDED; `size` is
    microseconds or rows. `partition` of an UNTIL window is its column. Stored in `meta["window"]` of the table."""

    kind: str
    span: Span
    size: int = 0
    slide_us: int | None = None
    partition: tuple[Name, ...] = ()


@dataclass(frozen=True)
class StreamOpDecl:
    kind: str  # ISTREAM, DSTREAM, RSTREAM
    span: Span
    every_us: int | None = None


@dataclass(frozen=True)
class QueryDecl:
    name: Name
    body: exp.Expr
    deadline_us: int | None = None
    firm: bool = False
    cost_us: int | None = None
    stream_op: StreamOpDecl | None = None
    into: ConnectorDecl | None = None
    view: bool = False  # runs only as part of the queries that read it
    on_error_skip: bool = False
    error_into: ConnectorDecl | None = None


@dataclass
class AppDecl:
    source: Source
    statements: list[StreamDecl | TableDecl | FunctionDecl | QueryDecl] = field(default_factory=list)
    errors: list[CqlError] = field(default_factory=list)

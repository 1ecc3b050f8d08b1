"""The logical plan: immutable, typed nodes, compared by structure, so that equal sub-plans are one key in a dict.

Invariant: a node refers to the columns of its children by position (`c0`, `c1`, ...), never by name; every name was
resolved by the binder. An expression is text that DuckDB evaluates over those positional columns (docs/decisions/001).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from kigen.language.errors import CqlWarning
from kigen.plan.types import Column, Schema, Type

Place = tuple[
    int, int
]  # in the text of the app file, for warnings; never compared, so equal plans written twice are one


@dataclass(frozen=True)
class Expr:
    """`sql` is over c0, c1, ... of the child and already cast to `type`; `text` is what the user wrote, for explain: it
    does not count when nodes are compared, so that sub-plans that differ in aliases only are shared."""

    sql: str
    type: Type
    text: str = field(compare=False)
    column: int | None = None  # set when the expression is just that child column: no evaluation needed


class AggFunc(Enum):
    COUNT_STAR = "COUNT(*)"
    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True)
class Agg:
    func: AggFunc
    arg: int | None  # child column; None only for COUNT_STAR
    # of the result: COUNT BIGINT; SUM BIGINT or DOUBLE like its argument; AVG DOUBLE; MIN, MAX like the argument
    type: Type


class WindowKind(Enum):
    RANGE = "RANGE"
    ROWS = "ROWS"
    PARTITION_ROWS = "PARTITION BY ROWS"
    NOW = "NOW"
    UNBOUNDED = "UNBOUNDED"


class StreamKind(Enum):
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"
    RSTREAM = "RSTREAM"


@dataclass(frozen=True)
class PlanNode:
    """Base of all plan nodes. `schema` are the output columns."""

    @property
    def schema(self) -> Schema:
        raise AttributeError("schema")

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def is_stream(self) -> bool:
        """Whether the node gives a stream (tuples with a time) rather than a relation (tuples with a lifetime)."""
        return False

    def walk(self) -> Iterator[PlanNode]:
        """This node and all below it, children first, a shared sub-plan once."""
        seen: set[PlanNode] = set()

        def visit(node: PlanNode) -> Iterator[PlanNode]:
            if node in seen:
                return
            for child in node.children:
                yield from visit(child)
            if node not in seen:
                seen.add(node)
                yield node

        yield from visit(self)


@dataclass(frozen=True)
class Scan(PlanNode):
    """A declared stream. All declared columns, in order, the timestamp column (if any) among them."""

    stream: str
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def is_stream(self) -> bool:
        return True


@dataclass(frozen=True)
class Received(Scan):
    """A relation that another node computes: `stream` names the link it comes by. Its tuples carry lifetimes
    already."""

    @property
    def is_stream(self) -> bool:
        return False


@dataclass(frozen=True)
class _Unary(PlanNode):
    child: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    @property
    def schema(self) -> Schema:
        return self.child.schema


@dataclass(frozen=True)
class Window(_Unary):
    """Stream (Scan or ToStream) to relation. `size` is microseconds for RANGE, rows for ROWS and PARTITION_ROWS, else
    0."""

    kind: WindowKind
    size: int = 0
    slide_us: int | None = None
    partition: tuple[int, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Filter(_Unary):
    predicate: Expr  # BOOLEAN; a row stays where it is true


@dataclass(frozen=True)
class Project(_Unary):
    exprs: tuple[Expr, ...]
    names: tuple[str, ...] = field(
        compare=False
    )  # not compared, as `Expr.text`: a query's own names are those of its own root

    @property
    def schema(self) -> Schema:
        return tuple(Column(name, expr.type) for name, expr in zip(self.names, self.exprs, strict=True))


@dataclass(frozen=True)
class Comparison:
    """`left op right` of a join: a column of the left child, `<`, `<=`, `>` or `>=`, and a column of the right child.
    Both columns have one type: BIGINT, DOUBLE or TIMESTAMP. The order is DuckDB's: NaN is the greatest DOUBLE; with
    NULL it is never true."""

    left: int
    op: str
    right: int


@dataclass(frozen=True)
class Join(PlanNode):
    """Inner join; columns of left, then right. Keys are equal-typed column pairs (NULL matches nothing); no keys: cross
    join. `residual` is over the joined columns (c0.. of left, then right). `comparisons` hold for every row for which
    the residual is true: an index may use them to find candidates, and the residual decides."""

    left: PlanNode
    right: PlanNode
    left_keys: tuple[int, ...] = ()
    right_keys: tuple[int, ...] = ()
    residual: Expr | None = None
    comparisons: tuple[Comparison, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema


@dataclass(frozen=True)
class Aggregate(PlanNode):
    """Columns: the keys, then the aggregates. A global aggregate (no keys) has its one row while any of `presence`, the
    windowed streams below it, holds a tuple; `presence` is empty otherwise."""

    child: PlanNode
    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    presence: tuple[PlanNode, ...] = ()  # windows, or what is received of them

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child, *self.presence)

    @property
    def schema(self) -> Schema:
        keys = tuple(self.child.schema[k] for k in self.keys)
        return keys + tuple(Column(a.func.value, a.type) for a in self.aggs)


@dataclass(frozen=True)
class Distinct(_Unary):
    pass


@dataclass(frozen=True)
class UnionAll(PlanNode):
    """Inputs of equal column types; names from the first."""

    inputs: tuple[PlanNode, ...]

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return self.inputs

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True)
class _SetOp(PlanNode):
    left: PlanNode
    right: PlanNode
    all: bool

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True)
class Except(_SetOp):
    pass


@dataclass(frozen=True)
class Intersect(_SetOp):
    pass


@dataclass(frozen=True)
class ToStream(_Unary):
    """Relation to stream. `every_us` only for RSTREAM[n SECONDS]."""

    kind: StreamKind
    every_us: int | None = None

    @property
    def is_stream(self) -> bool:
        return True


LINK = "link"  # the connector of what travels between nodes; app files cannot name it


# --- what an app file declares ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Connector:
    """`FROM csv (path = ...)` or `INTO parquet (...)`: options as written, values str, int, float or bool."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, key: str, default: Any = None) -> Any:
        return dict(self.options).get(key, default)


@dataclass(frozen=True)
class Shed:
    above_per_second: float
    by: Expr | None = None
    into: Connector | None = None


@dataclass(frozen=True)
class SourceStream:
    name: str
    schema: Schema
    source: Connector
    timestamp: int | None = None  # column of TIMESTAMP BY
    lateness_us: int = 0
    on_error_skip: bool = False
    shed: Shed | None = None
    buffer: int | None = None
    ahead_us: int | None = (
        None  # how far ahead a row may be dated; None: an hour for live streams, as far as it likes for files
    )

    def __repr__(self) -> str:
        """Keeps the class's first name: a stored placement is recognized by a digest of this text."""
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"Stream({values})"


@dataclass(frozen=True)
class Query:
    name: str
    root: PlanNode
    deadline_us: int | None = None
    firm: bool = False
    cost_us: int | None = None
    into: Connector | None = None
    level: int = 0  # of a node's own queries: how many links lie below it at most

    @property
    def schema(self) -> Schema:
        return self.root.schema

    @property
    def apart(self) -> tuple[int | None, int]:
        """Queries that differ in this share nothing: one with a FIRM deadline may miss tuples that others hold; and a
        task in which a query of a higher level waits for what another node makes of a lower one's results would wait
        for itself."""
        return self.deadline_us if self.firm else None, self.level

    @property
    def sent(self) -> bool:
        """Its results go to another node, as rows of a queue (kigen.lifetimes.exchange.sent), not as lines."""
        return self.into is not None and self.into.name == LINK

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({n.stream for n in self.root.walk() if isinstance(n, Scan)}))


@dataclass(frozen=True)
class App:
    streams: tuple[SourceStream, ...]
    queries: tuple[Query, ...]
    directory: str = "."  # of the app file: relative paths start there
    first_number: int = (
        0  # of operators: nodes that exchange tuples number theirs apart, so that holders cannot be mixed up
    )
    replicated: bool = False  # others compute the same: rows must come in the same order, with the same holders
    secret: int = field(
        default=0, repr=False
    )  # keys of rows are hashed with it, so that nobody can craft rows that meet
    sharing: bool = True  # of joins that differ in their windows; off only to measure what it brings
    warnings: tuple[CqlWarning, ...] = field(default=(), compare=False, repr=False)  # what costs more than it may seem

    def stream(self, name: str) -> SourceStream:
        return next(s for s in self.streams if s.name == name)

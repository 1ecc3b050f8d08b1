"""What an app file declares: connectors, streams, queries, and the app itself."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from kigen.language.errors import CqlWarning
from kigen.plan.logical.node import PlanNode
from kigen.plan.logical.streams import Scan
from kigen.plan.logical.terms import Expr
from kigen.plan.types import Schema

LINK = "link"  # the connector of what travels between nodes; app files cannot name it


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

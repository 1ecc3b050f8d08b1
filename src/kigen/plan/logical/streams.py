"""Nodes at the border of streams and relations: streams, windows, and ISTREAM, DSTREAM, RSTREAM."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from kigen.plan.durations import duration_text
from kigen.plan.estimates import DEFAULT_RATE, ENDLESS, Rates
from kigen.plan.logical.node import PlanNode, UnaryNode
from kigen.plan.logical.terms import Place
from kigen.plan.types import Column, Schema, Type

_WINDOW_WORDS = re.compile(r"\b(range|slide|rows|partition by|session|until|now|unbounded)\b")
# What the binder calls the columns of a SLIDE window with `bounds`; no user writes such names.
WINDOW_START, WINDOW_END = "\1window_start", "\1window_end"


class WindowKind(Enum):
    RANGE = "RANGE"
    ROWS = "ROWS"
    PARTITION_ROWS = "PARTITION BY ROWS"
    SESSION = "SESSION"
    UNTIL = "UNTIL"
    NOW = "NOW"
    UNBOUNDED = "UNBOUNDED"


class StreamKind(Enum):
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"
    RSTREAM = "RSTREAM"


@dataclass(frozen=True)
class Scan(PlanNode):
    """A declared stream: all declared columns, in order, with the timestamp column (if any) among them."""

    stream: str
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def is_stream(self) -> bool:
        return True

    def label(self) -> str:
        return f"stream {self.stream}"

    def rows_text(self) -> str:
        return self.label()


@dataclass(frozen=True)
class Received(Scan):
    """A relation that another node computes: `stream` names the link it arrives by. Its tuples already carry
    lifetimes."""

    @property
    def is_stream(self) -> bool:
        return False


@dataclass(frozen=True)
class Table(UnaryNode):
    """The rows of a table. Its first version is alive at all times; with `changes` there may be later ones. The child
    is its Scan."""

    changes: bool = field(default=False, repr=False)  # the stream's own clauses say it

    def label(self) -> str:
        return f"rows of table {self.child.stream}" if isinstance(self.child, Scan) else "rows of a table"

    def rows_text(self) -> str:
        return f"table {self.child.stream}" if isinstance(self.child, Scan) else "a table"

    def state_text(self, count: int) -> str:
        return self.rows_text()

    @property
    def is_windowed(self) -> bool:
        return True


@dataclass(frozen=True)
class Window(UnaryNode):
    """Turns a stream (Scan or ToStream) into a relation. `size` is microseconds for RANGE and SESSION, rows for ROWS
    and PARTITION_ROWS, else 0. `partition` are the columns of PARTITION BY, or the column of UNTIL. With `bounds`, a
    SLIDE window has two more columns: the multiples of the slide around the instant. Its tuples are then cut there."""

    kind: WindowKind
    size: int = 0
    slide_us: int | None = None
    partition: tuple[int, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)
    bounds: bool = False

    @property
    def schema(self) -> Schema:
        added = [Column(f"{name[1:]}()", Type.TIMESTAMP) for name in (WINDOW_START, WINDOW_END) if self.bounds]
        return self.child.schema + tuple(added)

    def label(self) -> str:
        return f"window {self.window_text()}" + (" with bounds" if self.bounds else "")

    def window_text(self) -> str:
        if self.kind is WindowKind.RANGE:
            slide = f" slide {duration_text(self.slide_us)}" if self.slide_us is not None else ""
            return f"range {duration_text(self.size)}{slide}"
        if self.kind is WindowKind.ROWS:
            return f"rows {self.size}"
        columns = ", ".join(self.schema[p].name for p in self.partition)
        if self.kind is WindowKind.PARTITION_ROWS:
            return f"partition by {columns} rows {self.size}"
        if self.kind is WindowKind.SESSION:
            return f"{f'partition by {columns} ' if columns else ''}session {duration_text(self.size)}"
        if self.kind is WindowKind.UNTIL:
            return f"until {columns}"
        return str(self.kind.value).lower()

    def rows_text(self) -> str:
        stream = self.child.stream if isinstance(self.child, Scan) else self.child.rows_text()
        return f"{stream} [{_WINDOW_WORDS.sub(lambda word: word[0].upper(), self.window_text())}]"

    def state_text(self, count: int) -> str:
        return self.rows_text()

    @property
    def is_windowed(self) -> bool:
        return True

    @property
    def is_unbounded(self) -> bool:
        return self.kind is WindowKind.UNBOUNDED

    def rows_alive(self, rates: Rates) -> float:
        if self.kind is WindowKind.ROWS:
            return float(self.size)
        if self.kind is WindowKind.NOW:
            return 1.0
        if self.kind is WindowKind.UNBOUNDED:
            return ENDLESS
        if self.kind in (WindowKind.RANGE, WindowKind.SESSION):  # a session lasts longer, nobody knows how much
            rate = rates.get(self.child.stream, DEFAULT_RATE) if isinstance(self.child, Scan) else DEFAULT_RATE
            return max(1.0, rate * (self.size + (self.slide_us or 0) / 2) / 1e6)
        return max(1, self.size) * DEFAULT_RATE  # PARTITION BY, UNTIL: partitions and lengths are not known

    def most_rows(self, rates: Rates) -> float:
        return self.rows_alive(rates)

    def has_one_row(self) -> bool:
        return self.kind is WindowKind.ROWS and self.size == 1


@dataclass(frozen=True)
class ToStream(UnaryNode):
    """Turns a relation into a stream. `every_us` is set only for RSTREAM[n SECONDS]."""

    kind: StreamKind
    every_us: int | None = None

    @property
    def is_stream(self) -> bool:
        return True

    @property
    def acts_periodically(self) -> bool:
        return self.every_us is not None

    def label(self) -> str:
        return self.kind.value.lower() + (f" every {duration_text(self.every_us)}" if self.every_us is not None else "")

    def rows_text(self) -> str:
        return f"{self.kind.value.lower()} of {self.child.rows_text()}"

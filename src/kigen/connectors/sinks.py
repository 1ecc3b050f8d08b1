"""Where results go: a `Sink` writes tables and can say, durably, how far it has come.

Invariant: `open(mark)` leaves exactly what had been written when `mark()` gave that mark, whatever was written or half written
after it; so a replayed batch is neither lost nor doubled. Tables hold c0, c1, ... and `_from`, `_to` (int64 microseconds, `_to`
NULL if undetermined) or `_at`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from kigen.plan.types import Schema

Mark = dict[str, Any]  # JSON


class Sink(ABC):
    def __init__(self, schema: Schema, is_stream: bool) -> None:
        self.schema, self.is_stream = schema, is_stream

    @abstractmethod
    def open(self, mark: Mark | None) -> None:
        """None: a fresh start, which removes what an earlier run left; else cut back to that mark."""

    @abstractmethod
    def write(self, table: pa.Table) -> None: ...

    @abstractmethod
    def mark(self) -> Mark:
        """How far the output reaches; durable when this returns."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def times(self) -> tuple[str, ...]:
        return ("_at",) if self.is_stream else ("_from", "_to")

    def columns(self, table: pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        """The table's columns in the order of the output, times as UTC timestamps without a zone."""
        values = [table[f"c{i}"].cast(column.type.arrow) for i, column in enumerate(self.schema)]
        return values + [table[name].cast(pa.int64()).cast(pa.timestamp("us")) for name in self.times]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.schema] + list(self.times)


def sync_directory(path: str) -> None:
    """Make new, renamed and deleted names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

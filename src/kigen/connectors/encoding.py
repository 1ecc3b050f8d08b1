"""Encodes large results in a worker: an `Encoder` turns tables into a finished file, which the sink then adopts.

Invariant: an adopted file gives the same output as the tables would have. An encoder is small, does not know how far
the output reaches, and is pickled. A file is complete when `finish` returns. Cost: encoding runs beside the kernel and
not on the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from kigen.plan.types import Schema


def times_of(is_stream: bool, changes: bool = False) -> tuple[str, ...]:
    """Returns the names of the columns after the query's own. The last one is always a time."""
    if changes:
        return ("_op", "_at")
    return ("_at",) if is_stream else ("_from", "_to")


def output_columns(
    table: pa.Table, schema: Schema, is_stream: bool, changes: bool = False
) -> list[pa.Array | pa.ChunkedArray]:
    """Returns the table's columns in the order of the output, with times as UTC timestamps without a zone."""
    values = [table[f"c{i}"].cast(column.type.arrow) for i, column in enumerate(schema)]
    return values + [
        table[name] if name == "_op" else table[name].cast(pa.int64()).cast(pa.timestamp("us"))
        for name in times_of(is_stream, changes)
    ]


class Encoder(ABC):
    """Starts files that a sink of the same kind can adopt."""

    def __init__(self, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        self.schema, self.is_stream, self.changes = schema, is_stream, changes
        self.syncs = True  # whether finished files survive a power cut

    @abstractmethod
    def start(self, path: str) -> Encoding:
        """Begins a new file."""


class Encoding(ABC):
    """A file that is being written."""

    @abstractmethod
    def add(self, table: pa.Table) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Completes the file. Everything that the sink will not write again itself is durable when this returns."""

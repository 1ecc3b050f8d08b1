"""Results made ready in a worker: an `Encoder` turns tables into a finished file, which the sink then takes over as it
is.

Invariant: what a sink makes of an adopted file is what it would have made of the tables. An encoder is small, knows
nothing of how far the output reaches, and travels by pickle; a file is whole when `finish` returns. Cost: encoding is
off the driver, beside the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from kigen.plan.types import Schema


def times_of(is_stream: bool) -> tuple[str, ...]:
    return ("_at",) if is_stream else ("_from", "_to")


def output_columns(table: pa.Table, schema: Schema, is_stream: bool) -> list[pa.Array | pa.ChunkedArray]:
    """The table's columns in the order of the output, times as UTC timestamps without a zone."""
    values = [table[f"c{i}"].cast(column.type.arrow) for i, column in enumerate(schema)]
    return values + [table[name].cast(pa.int64()).cast(pa.timestamp("us")) for name in times_of(is_stream)]


class Encoder(ABC):
    def __init__(self, schema: Schema, is_stream: bool) -> None:
        self.schema, self.is_stream = schema, is_stream
        self.syncs = True  # finished files outlive a power cut

    @abstractmethod
    def start(self, path: str) -> Encoding:
        """Begin a new file."""


class Encoding(ABC):
    """A file that is being written."""

    @abstractmethod
    def add(self, table: pa.Table) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """All is in; what the sink will not write again itself is durable when this returns."""

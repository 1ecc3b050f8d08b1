"""Results made ready in a worker: an `Encoder` turns tables into a finished file, which the sink then takes over as it is.

Invariant: what a sink makes of an adopted file is what it would have made of the tables. An encoder is small, knows nothing of how far
the output reaches, and travels by pickle; a file is whole when `finish` returns. Cost: encoding is off the driver, beside the kernel.
"""

from __future__ import annotations

import errno
import os
import shutil
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


def move_durable(source: str, target: str) -> None:
    """Rename a durable file; onto another file system by a copy. The target's name is durable after `sync_directory` only."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.tmp")
        with open(source, "rb") as given, open(partial, "wb") as taken:
            shutil.copyfileobj(given, taken, 1 << 20)
            taken.flush()
            os.fsync(taken.fileno())
        os.rename(partial, target)
        os.remove(source)

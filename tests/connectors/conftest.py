"""Makes a stream in one call, and reads a stream in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from kigen.connectors import Range, Rows, Source
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Column, Type

MakeStream = Callable[..., SourceStream]


@pytest.fixture(scope="session")
def make_stream() -> MakeStream:
    def make(
        connector: str, columns: str, timestamp: str | None = "ts", skip: bool = False, **options: Any
    ) -> SourceStream:
        """Makes a stream. `columns` are written as in an app file: 'room STRING, ts TIMESTAMP'."""
        schema = tuple(Column(c.split()[0], getattr(Type, c.split()[1])) for c in columns.split(","))
        at = None if timestamp is None else [c.name for c in schema].index(timestamp)
        return SourceStream("s", schema, Connector(connector, tuple(options.items())), at, on_error_skip=skip)

    return make


@pytest.fixture(scope="session")
def read_all() -> Callable[..., Rows]:
    def read(source: Source, sizes: Iterable[int] = ()) -> Rows:
        """Reads the whole stream in ranges of the given sizes (the last size repeats; default: all at once) and checks
        that each range starts where the one before it ended."""
        cuts = iter(sizes)
        size, position = 10**9, source.initial()
        tables, skipped, errors = [], 0, []
        while True:
            size = next(cuts, size)
            piece = Range.from_json(source.advance(position, size).to_json())
            assert piece.start == position
            if piece.start == piece.end:
                assert piece.ended
                break
            assert piece.rows is not None
            assert 0 < piece.rows <= size
            rows = source.read(piece)
            tables.append(rows.table)
            skipped, errors, position = skipped + rows.skipped, errors + rows.errors, piece.end
            if piece.ended:
                again = source.advance(position, size)
                assert again.ended
                assert again.start == again.end
                break
        tables.append(source.read(Range("s", position, position)).table)
        return Rows(pa.concat_tables(tables).combine_chunks(), skipped, errors)

    return read

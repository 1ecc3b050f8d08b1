"""Decodes a pushed batch by its content type: JSON lines, CSV with a header, or an Arrow IPC stream or file.

Invariant: a batch is decoded whole. Without ON ERROR SKIP the first bad row refuses it; with it, bad rows are left out
and counted. A row that is dated too far ahead of its arrival is a bad row. The bytes are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from kigen.connectors.ahead import LIVE_US, Ahead
from kigen.connectors.bad_rows import BadRows, null_timestamp, wrong_type
from kigen.connectors.casting import bisect_cast, with_ts
from kigen.connectors.columns import MISSING, places_of
from kigen.connectors.csv.rows import header_of, rows_of_csv
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.pushed.errors import UnknownContentType
from kigen.connectors.source_base import InputError, Rows
from kigen.connectors.text_files import Span
from kigen.connectors.values.arrow_types import cast_lossless
from kigen.connectors.values.missing_columns import missing_in
from kigen.connectors.values.unknown_fields import merged
from kigen.plan.logical import SourceStream

JSON_LINES, CSV, ARROW_STREAM = "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"


def decode_batch(data: bytes, content_type: str, stream: SourceStream, now_us: int, place: str = "batch") -> Rows:
    """Returns the rows of a batch that arrives at `now_us`. `place` names the batch in messages.

    Raises InputError for a bad row, with its line and field, and UnknownContentType.
    """
    decode = _DECODERS.get(media_type(content_type))
    if decode is None:
        raise UnknownContentType(
            f"content type {content_type!r} is not known: send {', '.join(CONTENT_TYPES[:-1])} or {CONTENT_TYPES[-1]}"
        )
    ahead_us = LIVE_US if stream.ahead_us is None else stream.ahead_us
    return decode(data, stream, Ahead() if stream.timestamp is None else Ahead(now_us + ahead_us), place)


def media_type(content_type: str) -> str:
    """Returns a content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _json_lines(data: bytes, stream: SourceStream, ahead: Ahead, place: str) -> Rows:
    return rows_of_json(Span(place, data, 1), stream, stream.timestamp, place, ahead)


def _csv(data: bytes, stream: SourceStream, ahead: Ahead, place: str) -> Rows:
    header = header_of(data, stream, place)
    span = Span(place, data[header.byte :], header.line)
    return rows_of_csv(span, header, stream, stream.timestamp, place, ahead)


def _arrow(data: bytes, stream: SourceStream, ahead: Ahead, place: str, is_file: bool) -> Rows:
    try:
        opened = pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data)
        table = opened.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, MemoryError) as error:
        kind = "file" if is_file else "stream"
        raise InputError(f"an Arrow IPC {kind} is required: {error}", place) from error
    return rows_of_table(table, stream, ahead, place)


def rows_of_table(table: pa.Table, stream: SourceStream, ahead: Ahead, place: str) -> Rows:
    """Returns the declared columns of a table, found by name and converted without loss; a missing one is NULL."""
    bad = BadRows(place, stream.on_error_skip)
    columns = []
    places = places_of(stream, table.column_names, place, None, "the batch")
    for index, column in enumerate(stream.schema):
        if places[index] == MISSING:
            columns.append(pa.nulls(table.num_rows, column.type.arrow))
            continue
        found = table.column(places[index]).combine_chunks()
        if isinstance(found, pa.ChunkedArray):
            found = found.chunk(0) if found.num_chunks else pa.array([], found.type)
        try:
            values, misfits = bisect_cast(found, partial(cast_lossless, type_=column.type))
        except (pa.ArrowException, NotImplementedError) as error:
            raise InputError(f"{column.type} required, found {found.type}", place, None, column.name) from error
        for at in misfits.tolist():
            bad.add(at, at + 1, index, column.name, wrong_type(_shown(found[at]), column.type))
        if index == stream.timestamp:
            for at in np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False)).tolist():
                bad.add(at, at + 1, index, column.name, null_timestamp("NULL"))
            for at in ahead.beyond(values).tolist():
                bad.add(at, at + 1, index, column.name, ahead.message(_shown(found[at])))
        columns.append(values)
    skipped, errors = bad.settle()
    keep = pa.array(bad.good(table.num_rows))
    kept = [pa.chunked_array([values.filter(keep) if skipped else values]) for values in columns]
    listed = bad.listed(lambda row: str(table.slice(row, 1).to_pylist()[0])) if stream.error_into is not None else ()
    known = {column.name.casefold() for column in stream.schema}
    others = [name for name in table.column_names if name.strip().casefold() not in known]
    unknown = merged([dict.fromkeys(others, table.num_rows)])
    without = [column.name for column, at in zip(stream.schema, places, strict=True) if at == MISSING]
    missing = missing_in(without, table.num_rows, place)
    made = with_ts(kept, stream.schema, stream.timestamp)
    return Rows(made, skipped, errors, listed, unknown=unknown, missing=missing)


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value)
    except (OverflowError, ValueError):  # a time beyond the year 9999
        return f"{value.cast(pa.int64())}"


_DECODERS: dict[str, Callable[[bytes, SourceStream, Ahead, str], Rows]] = {
    JSON_LINES: _json_lines,
    "application/jsonl": _json_lines,
    "application/json": _json_lines,
    CSV: _csv,
    ARROW_STREAM: partial(_arrow, is_file=False),
    ARROW_FILE: partial(_arrow, is_file=True),
}
CONTENT_TYPES = (JSON_LINES, CSV, ARROW_STREAM, ARROW_FILE)

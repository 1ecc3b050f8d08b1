"""Parses JSON lines into rows: one object per line, columns by key. A missing key is NULL; other keys are ignored.

Invariant: whether a line is a row or a bad row depends on that line alone. Cost: pyarrow.json parses into the declared
types; text with anything unusual in it is read again line by line (`bad_json_rows`). Input is checked before pyarrow
sees it, because pyarrow crashes on a bare `null` and reads two objects on one line as two rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kigen.connectors.ahead import NO_LIMIT, Ahead
from kigen.connectors.casting import convert_texts, with_ts
from kigen.connectors.jsonl.bad_json_rows import parse_by_line
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Span
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

_BLOCK = 1 << 20
_BRACE, _NEWLINE, _RETURN = 123, 10, 13


def rows_of_json(span: Span, stream: SourceStream, timestamp: int | None, file: str, ahead: Ahead = NO_LIMIT) -> Rows:
    """Returns the rows of whole lines. `file` names their origin in messages; without `timestamp` there is no `_ts`."""
    columns = _parse_fast(span.data, stream.schema)
    if columns is None or (
        timestamp is not None and (columns[timestamp].null_count or ahead.any_beyond(columns[timestamp]))
    ):
        return parse_by_line(span, stream, timestamp, file, ahead)
    return Rows(with_ts(columns, stream.schema, timestamp))


def _parse_fast(data: bytes, schema: Schema) -> list[pa.ChunkedArray] | None:
    """Returns the declared columns; None if any line must be parsed by itself."""
    rows = _plain_rows(data)
    if not rows:
        return None
    wanted = pa.schema([(c.name, pa.string() if c.type is Type.TIMESTAMP else c.type.arrow) for c in schema])
    is_large = len(data) > 2 * _BLOCK
    try:
        data.decode()
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=is_large, block_size=_BLOCK if is_large else len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if table.num_rows != rows:
        return None
    columns = []
    for column in schema:
        values = table[column.name]
        if column.type is Type.TIMESTAMP:
            moments, misfits = convert_texts(values.combine_chunks(), column.type)
            if len(misfits):
                return None
            values = pa.chunked_array([moments])
        columns.append(values)
    return columns


def _plain_rows(data: bytes) -> int:
    """Returns the number of non-empty lines if each begins with a brace and no number is a word; else 0."""
    if b"NaN" in data or b"Inf" in data:
        return 0
    octets = np.frombuffer(data, np.uint8)
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(octets == _NEWLINE) + 1))
    first = octets[starts[starts < len(data)]]
    filled = first[(first != _NEWLINE) & (first != _RETURN)]
    return len(filled) if bool((filled == _BRACE).all()) else 0

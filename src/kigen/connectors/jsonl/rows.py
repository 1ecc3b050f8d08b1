"""Parses JSON lines into rows: one object per line, columns by key. A missing key is NULL; other keys are ignored.

Invariant: whether a line is a row or a bad row depends on that line alone. Cost: pyarrow.json parses into the declared
types; text with anything unusual in it is read again line by line (`bad_json_rows`). Input is checked before pyarrow
sees it, because pyarrow crashes on a bare `null` and reads two objects on one line as two rows.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kigen.connectors.ahead import NO_LIMIT, Ahead
from kigen.connectors.casting import convert_texts, with_ts
from kigen.connectors.jsonl.bad_json_rows import parse_by_line
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Span
from kigen.connectors.values.unknown_fields import NONE, Unknown, merged, unknown_keys
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

_BLOCK = 1 << 20
_PLAIN = (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING)  # the other types are text
_BRACE, _NEWLINE, _RETURN = 123, 10, 13


def rows_of_json(span: Span, stream: SourceStream, timestamp: int | None, file: str, ahead: Ahead = NO_LIMIT) -> Rows:
    """Returns the rows of whole lines. `file` names their origin in messages; without `timestamp` there is no `_ts`."""
    parsed = _parse_fast(span.data, stream.schema)
    if parsed is None:
        return parse_by_line(span, stream, timestamp, file, ahead)
    columns, unknown = parsed
    if timestamp is not None and (columns[timestamp].null_count or ahead.any_beyond(columns[timestamp])):
        return parse_by_line(span, stream, timestamp, file, ahead)
    return Rows(with_ts(columns, stream.schema, timestamp), unknown=unknown)


def _parse_fast(data: bytes, schema: Schema) -> tuple[list[pa.ChunkedArray], Unknown] | None:
    """Returns the declared columns, and what else there is; None if any line must be parsed by itself."""
    rows = _plain_rows(data)
    if not rows:
        return None
    if any(c.type.is_nested or c.type.is_decimal for c in schema):
        return None  # pyarrow would cut digits, and reads other texts of times
    wanted = pa.schema([(c.name, c.type.arrow if c.type in _PLAIN else pa.string()) for c in schema])
    try:
        data.decode()
        table, unknown = _read(data, wanted)
    except (ValueError, RecursionError):  # of pyarrow, of the decoder, of json
        return None
    if table.num_rows != rows:
        return None
    columns = []
    for column in schema:
        values = table[column.name]
        if column.type not in _PLAIN:
            moments, misfits = convert_texts(values.combine_chunks(), column.type)
            if len(misfits):
                return None
            values = pa.chunked_array([moments])
        columns.append(values)
    return columns, unknown


def _read(data: bytes, wanted: pa.Schema) -> tuple[pa.Table, Unknown]:
    """Parses the text, with its unknown fields to count them. If their types differ from row to row, pyarrow refuses
    them: then they are ignored, and counted line by line."""
    is_large = len(data) > 2 * _BLOCK
    options = pj.ReadOptions(use_threads=is_large, block_size=_BLOCK if is_large else len(data) + 1)

    def parsed(unexpected: str) -> pa.Table:
        how = pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior=unexpected)
        return pj.read_json(pa.BufferReader(data), read_options=options, parse_options=how)

    try:
        table = parsed("infer")
        extra = table.column_names[len(wanted) :]
        counts = {name: table.num_rows - table[name].null_count for name in extra}
        return table, merged([{name: count for name, count in counts.items() if count}]) if extra else NONE
    except pa.ArrowInvalid:
        table = parsed("ignore")
    return table, unknown_keys(map(json.loads, filter(None, data.split(b"\n"))), wanted.names)


def _plain_rows(data: bytes) -> int:
    """Returns the number of non-empty lines if each begins with a brace and no number is a word; else 0."""
    if b"NaN" in data or b"Inf" in data:
        return 0
    octets = np.frombuffer(data, np.uint8)
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(octets == _NEWLINE) + 1))
    first = octets[starts[starts < len(data)]]
    filled = first[(first != _NEWLINE) & (first != _RETURN)]
    return len(filled) if bool((filled == _BRACE).all()) else 0

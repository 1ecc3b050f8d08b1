"""Reads `FROM jsonl (path = ...)`: one JSON object per line, columns by key. A missing key is NULL; other keys are
ignored.

Invariant: whether a line is a row or a bad row depends on that line alone. Cost: pyarrow.json parses into the declared
types; a range with anything unusual in it is read again line by line (`bad_json_rows`). Input is checked before pyarrow
sees it, because pyarrow crashes on a bare `null` and reads two objects on one line as two rows.
"""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kigen.connectors.casting import convert_texts, iso_us, with_ts
from kigen.connectors.jsonl.bad_json_rows import parse_by_line
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Offsets, Span, TextSource
from kigen.plan.types import Type

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_BRACE, _NEWLINE, _RETURN = 123, 10, 13


class JsonlSource(TextSource):
    def data_start(self, name: str) -> tuple[int, int]:
        return (len(_BOM) if self.files.read(name, 0, len(_BOM)) == _BOM else 0), 1

    def ends(self, data: bytes) -> Offsets:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1

    def is_plain(self, data: bytes) -> bool:
        return True

    def record_ts_us(self, name: str, record: bytes) -> int | None:
        with suppress(ValueError, RecursionError):
            value = json.loads(record)
            found = value.get(self.stream.schema[self.timestamp].name) if isinstance(value, dict) else None
            return iso_us(found) if isinstance(found, str) else None
        return None

    def parse(self, span: Span) -> Rows:
        columns = self._parse_fast(span.data)
        if columns is None or columns[self.timestamp].null_count or self.ahead.any_beyond(columns[self.timestamp]):
            return parse_by_line(span, self.stream, self.timestamp, self.files.full(span.name), self.ahead)
        return Rows(with_ts(columns, self.stream.schema, self.timestamp))

    def _parse_fast(self, data: bytes) -> list[pa.ChunkedArray] | None:
        """Returns the declared columns; None if any line must be parsed by itself."""
        rows = _plain_rows(data)
        if not rows:
            return None
        schema = self.stream.schema
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

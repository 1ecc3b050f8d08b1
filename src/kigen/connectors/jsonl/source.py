"""Reads `FROM jsonl (path = ...)`: one JSON object per line, columns by key. A missing key is NULL; other keys are
ignored (`kigen.connectors.jsonl.rows`)."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np

from kigen.connectors.casting import iso_us
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Offsets, Span, TextSource

_BOM = b"\xef\xbb\xbf"
_NEWLINE = 10


class JsonlSource(TextSource):
    def data_start(self, name: str) -> tuple[int, int]:
        return (len(_BOM) if self.files.read(name, 0, len(_BOM)) == _BOM else 0), 1

    def ends(self, data: bytes) -> Offsets:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1

    def is_plain(self, data: bytes) -> bool:
        return True

    def record_ts_us(self, name: str, record: bytes) -> int | None:
        if self.timestamp is None:  # a table
            return None
        with suppress(ValueError, RecursionError):
            value = json.loads(record)
            found = value.get(self.stream.schema[self.timestamp].name) if isinstance(value, dict) else None
            return iso_us(found) if isinstance(found, str) else None
        return None

    def parse(self, span: Span) -> Rows:
        return rows_of_json(span, self.stream, self.timestamp, self.files.full(span.name), self.ahead)

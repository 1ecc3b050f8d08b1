"""Reads `FROM csv (path = ...)`: RFC 4180 with a header; columns are found by name (`kigen.connectors.csv.rows`).

Invariant: a range of bytes gives the same rows however the file was cut.
"""

from __future__ import annotations

import csv
import io

from kigen.connectors.casting import iso_us
from kigen.connectors.csv.records import record_ends
from kigen.connectors.csv.rows import BOM, Header, header_of, rows_of_csv
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Offsets, Span, TextSource


class CsvSource(TextSource):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # passed on unchanged
        self._headers: dict[str, Header] = {}

    def header(self, name: str) -> Header:
        if name not in self._headers:
            self._headers[name] = self._read_header(name)
        return self._headers[name]

    def data_start(self, name: str) -> tuple[int, int]:
        header = self.header(name)
        return header.byte, header.line

    def ends(self, data: bytes) -> Offsets:
        return record_ends(data)

    def is_plain(self, data: bytes) -> bool:
        return 34 not in data

    def record_ts_us(self, name: str, record: bytes) -> int | None:
        if self.timestamp is None:  # a table
            return None
        place = self.header(name).places[self.timestamp]
        try:
            fields = next(csv.reader(io.StringIO(record.decode("utf-8", "replace"), newline="")), [])
        except csv.Error:  # a very long field: another record gives the hint
            return None
        return iso_us(fields[place]) if place < len(fields) else None

    def parse(self, span: Span) -> Rows:
        header = self.header(span.name)
        return rows_of_csv(span, header, self.stream, self.timestamp, self.files.full(span.name), self.ahead)

    def _read_header(self, name: str) -> Header:
        file, size = self.files.full(name), self.files.size(name)
        want = 1 << 14
        while True:
            data = self.files.read(name, 0, want)
            skip = len(BOM) if data.startswith(BOM) else 0
            ends = record_ends(data[skip:])
            if len(ends) or len(data) >= size:
                break
            want *= 4
        return header_of(data, self.stream, file)

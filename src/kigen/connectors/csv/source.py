"""Reads `FROM csv (path = ...)`: RFC 4180 with a header; columns are found by name.

Invariant: a range of bytes gives the same rows however the file was cut. An unquoted empty field is NULL, and `""` is
the empty string. Cost: pyarrow.csv parses straight into the declared types; only a range with a bad row is read again
as text, column by column (`bad_csv_rows`).
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pcsv

from kigen.connectors.casting import FALSE_TEXTS, TRUE_TEXTS, are_in_range, csv_type, iso_us, with_ts, without_zone
from kigen.connectors.columns import place_of
from kigen.connectors.csv.bad_csv_rows import parse_by_text
from kigen.connectors.csv.records import is_open, record_ends
from kigen.connectors.source_base import InputError, Rows
from kigen.connectors.text_files import Offsets, Span, TextSource
from kigen.plan.types import Type

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Header:
    width: int
    places: tuple[int, ...]  # of each declared column
    byte: int  # where the records begin
    line: int


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
        place = self.header(name).places[self.timestamp]
        try:
            fields = next(csv.reader(io.StringIO(record.decode("utf-8", "replace"), newline="")), [])
        except csv.Error:  # a very long field: another record gives the hint
            return None
        return iso_us(fields[place]) if place < len(fields) else None

    def parse(self, span: Span) -> Rows:
        if not span.data.strip(b"\r\n"):
            empty = [pa.chunked_array([], c.type.arrow) for c in self.stream.schema]
            return Rows(with_ts(empty, self.stream.schema, self.timestamp))
        header = self.header(span.name)
        columns: list[pa.ChunkedArray] | None = None
        with suppress(pa.ArrowInvalid):
            columns = self._parse_fast(span.data, header)
        ahead = self.ahead
        far = columns is not None and (not are_in_range(columns) or ahead.any_beyond(columns[self.timestamp]))
        if columns is None or far or columns[self.timestamp].null_count or is_open(span.data):
            return parse_by_text(
                span, self.stream, self.timestamp, self.files.full(span.name), header.width, header.places, ahead
            )
        return Rows(with_ts(columns, self.stream.schema, self.timestamp))

    def _parse_fast(self, data: bytes, header: Header) -> list[pa.ChunkedArray]:
        wanted = {
            f"f{place}": csv_type(column.type) for place, column in zip(header.places, self.stream.schema, strict=True)
        }
        is_large = len(data) > 2 * _BLOCK
        table = pcsv.read_csv(
            pa.BufferReader(data),
            read_options=pcsv.ReadOptions(
                column_names=[f"f{i}" for i in range(header.width)],
                use_threads=is_large,
                block_size=_BLOCK if is_large else len(data) + 1,
            ),
            parse_options=pcsv.ParseOptions(newlines_in_values=34 in data),
            convert_options=pcsv.ConvertOptions(
                column_types=wanted,
                include_columns=list(wanted),
                null_values=[""],
                true_values=TRUE_TEXTS,
                false_values=FALSE_TEXTS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                timestamp_parsers=[pcsv.ISO8601],
            ),
        )
        columns = [table[f"f{place}"] for place in header.places]
        return [
            without_zone(c) if d.type is Type.TIMESTAMP else c for c, d in zip(columns, self.stream.schema, strict=True)
        ]

    def _read_header(self, name: str) -> Header:
        file, size = self.files.full(name), self.files.size(name)
        want = 1 << 14
        while True:
            data = self.files.read(name, 0, want)
            skip = len(_BOM) if data.startswith(_BOM) else 0
            ends = record_ends(data[skip:])
            if len(ends) or len(data) >= size:
                break
            want *= 4
        end = skip + int(ends[0]) if len(ends) else len(data)
        try:
            names = next(csv.reader(io.StringIO(data[skip:end].decode("utf-8"), newline=""), strict=True), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"the header cannot be read: {error}", file, 1) from error
        if not names:
            raise InputError(f"a header is required, found nothing: write the first line {self._wanted()}", file, 1)
        places = tuple(place_of(column.name, names, file, 1, "the header") for column in self.stream.schema)
        return Header(len(names), places, end, 1 + data.count(b"\n", 0, end))

    def _wanted(self) -> str:
        return ",".join(column.name for column in self.stream.schema)

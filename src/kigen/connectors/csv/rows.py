"""Parses CSV (RFC 4180) into rows: a header first, then records whose columns are found by name.

Invariant: an unquoted empty field is NULL, and `""` is the empty string. A column that the header lacks is NULL. Cost:
pyarrow.csv parses straight into the declared types; only text with a bad row is read again as text, column by column
(`bad_csv_rows`).
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv as pcsv

from kigen.connectors.ahead import NO_LIMIT, Ahead
from kigen.connectors.casting import (
    FALSE_TEXTS,
    PARSED,
    TRUE_TEXTS,
    are_in_range,
    convert_texts,
    csv_type,
    with_ts,
    without_zone,
)
from kigen.connectors.columns import MISSING, places_of
from kigen.connectors.csv.bad_csv_rows import parse_by_text
from kigen.connectors.csv.records import is_open, record_ends
from kigen.connectors.source_base import InputError, Rows
from kigen.connectors.text_files import Span
from kigen.connectors.values.missing_columns import missing_in
from kigen.connectors.values.unknown_fields import merged
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Header:
    width: int
    places: tuple[int, ...]  # of each declared column; MISSING if it is not there
    byte: int  # where the records begin
    line: int
    unknown: tuple[str, ...] = ()  # columns that the stream does not declare
    missing: tuple[str, ...] = ()  # declared columns that are not there


def header_of(data: bytes, stream: SourceStream, file: str) -> Header:
    """Reads the header at the start of `data`, which holds it completely; raises InputError if a column is missing that
    must be there."""
    skip = len(BOM) if data.startswith(BOM) else 0
    ends = record_ends(data[skip:])
    end = skip + int(ends[0]) if len(ends) else len(data)
    try:
        names = next(csv.reader(io.StringIO(data[skip:end].decode("utf-8"), newline=""), strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"the header cannot be read: {error}", file, 1) from error
    if not names:
        wanted = ",".join(column.name for column in stream.schema)
        raise InputError(f"a header is required, found nothing: write the first line {wanted}", file, 1)
    places = places_of(stream, names, file, 1, "the header")
    unknown = tuple(name for place, name in enumerate(names) if place not in places)
    missing = tuple(c.name for c, place in zip(stream.schema, places, strict=True) if place == MISSING)
    return Header(len(names), places, end, 1 + data.count(b"\n", 0, end), unknown, missing)


def rows_of_csv(
    span: Span, header: Header, stream: SourceStream, timestamp: int | None, file: str, ahead: Ahead = NO_LIMIT
) -> Rows:
    """Returns the rows of whole records, without the header. `file` names their origin in messages; without `timestamp`
    there is no `_ts`."""
    schema = stream.schema
    if not span.data.strip(b"\r\n"):
        return Rows(with_ts([pa.chunked_array([], c.type.arrow) for c in schema], schema, timestamp))
    columns: list[pa.ChunkedArray] | None = None
    with suppress(pa.ArrowInvalid):
        columns = _parse_fast(span.data, header, schema)
    if columns is None or not are_in_range(columns) or is_open(span.data) or _is_wrong(columns, timestamp, ahead):
        rows = parse_by_text(span, stream, timestamp, file, header.width, header.places, ahead)
    else:
        rows = Rows(with_ts(columns, schema, timestamp))
    if not (header.unknown or header.missing):
        return rows
    count = rows.table.num_rows + rows.skipped
    unknown = merged([dict.fromkeys(header.unknown, count)])
    return replace(rows, unknown=unknown, missing=missing_in(header.missing, count, file))


def _is_wrong(columns: list[pa.ChunkedArray], timestamp: int | None, ahead: Ahead) -> bool:
    return timestamp is not None and (bool(columns[timestamp].null_count) or ahead.any_beyond(columns[timestamp]))


def _parse_fast(data: bytes, header: Header, schema: Schema) -> list[pa.ChunkedArray] | None:
    """Returns the declared columns; None if a value does not fit. Raises ArrowInvalid likewise."""
    there = [(f"f{place}", column.type) for place, column in zip(header.places, schema, strict=True) if place >= 0]
    wanted = {name: csv_type(type_) for name, type_ in there}
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
    columns = []
    for i, (place, column) in enumerate(zip(header.places, schema, strict=True)):
        if place == MISSING:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, column.type.arrow)]))
            continue
        columns.append(table[f"f{place}"])
        if column.type is Type.TIMESTAMP:
            columns[i] = without_zone(columns[i])
        elif column.type not in PARSED:
            values, misfits = convert_texts(columns[i].combine_chunks(), column.type)
            if len(misfits):
                return None
            columns[i] = pa.chunked_array([values])
    return columns

"""Parses csv slowly: reads a range with a bad row as text, to find each bad row with its line, field and text.

Invariant: rows that are not bad come out exactly as on the fast path. Cost: a second parse and one cast per column, and
more casts with the number of bad values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from kigen.connectors.ahead import NO_LIMIT, Ahead
from kigen.connectors.bad_rows import BadRows, null_timestamp, shown, wrong_type
from kigen.connectors.casting import convert, with_ts
from kigen.connectors.columns import MISSING
from kigen.connectors.csv.records import is_open, record_starts
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Offsets, Span
from kigen.plan.logical import SourceStream


def parse_by_text(
    span: Span,
    stream: SourceStream,
    timestamp: int | None,
    file: str,
    width: int,
    places: tuple[int, ...],
    ahead: Ahead = NO_LIMIT,
) -> Rows:
    data = span.data
    starts = record_starts(data)
    bad = BadRows(file, stream.on_error_skip)
    lines = _lines(span, starts)
    if is_open(data):  # the last record never ends
        last = len(starts) - 1
        data = data[: int(starts[last])]
        bad.add(
            last,
            int(lines[last]),
            -1,
            None,
            "a quoted field is not closed before the end of the file: write the missing quote",
        )
    texts, wrong_width = _texts(data, width, places)
    for row, found in wrong_width.items():
        message = f"{width} fields required, found {found[0]}: {shown(found[1])}"
        bad.add(row, int(lines[row]), -1, None, message)
    rows = np.flatnonzero(bad.good(len(starts)))
    columns = []
    for index, column in enumerate(stream.schema):
        text = texts[index]
        values, misfits = convert(text, column.type)
        for at in misfits.tolist():
            row = int(rows[at])
            found = text[at].as_py().decode("utf-8", "backslashreplace")
            bad.add(row, int(lines[row]), index, column.name, wrong_type(found, column.type))
        if index == timestamp:
            for at in np.flatnonzero(text.is_null().to_numpy(zero_copy_only=False)).tolist():
                row = int(rows[at])
                bad.add(row, int(lines[row]), index, column.name, null_timestamp("an empty field"))
            for at in ahead.beyond(values).tolist():
                row = int(rows[at])
                bad.add(
                    row,
                    int(lines[row]),
                    index,
                    column.name,
                    ahead.message(text[at].as_py().decode("utf-8", "backslashreplace")),
                )
        columns.append(values)
    skipped, errors = bad.settle()
    keep = pa.array(bad.good(len(starts))[rows])
    kept = [pa.chunked_array([values.filter(keep)]) for values in columns]
    wanted = stream.error_into is not None
    listed = bad.listed(lambda row: _record(span.data, starts, row)) if wanted else ()
    return Rows(with_ts(kept, stream.schema, timestamp), skipped, errors, listed)


def _record(data: bytes, starts: Offsets, row: int) -> str:
    """Returns the text of a record, without its line end."""
    end = int(starts[row + 1]) if row + 1 < len(starts) else len(data)
    return data[int(starts[row]) : end].rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def _lines(span: Span, starts: Offsets) -> Offsets:
    """Returns the physical line of each record."""
    newlines = np.flatnonzero(np.frombuffer(span.data, np.uint8) == 10)
    return np.asarray(span.line + np.searchsorted(newlines, starts), np.int64)


def _texts(data: bytes, width: int, places: tuple[int, ...]) -> tuple[list[pa.Array], dict[int, tuple[int, str]]]:
    """Returns the declared columns as bytes, and the rows with a wrong number of fields by their number among all
    rows."""
    wrong: dict[int, tuple[int, str]] = {}

    def note(row: Any) -> str:
        wrong[row.number - 1] = (row.actual_columns, row.text)
        return "skip"

    if not data.strip(b"\r\n"):
        return [pa.array([], pa.binary()) for _ in places], wrong
    # The parser decodes the text of a row of wrong width and gives up if it cannot. With every byte as one character
    # it always can.
    is_utf8 = _is_utf8(data)
    data = data if is_utf8 else data.decode("latin-1").encode()
    wanted = {f"f{place}": pa.binary() for place in places if place != MISSING}
    table = pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(
            column_names=[f"f{i}" for i in range(width)], use_threads=False, block_size=len(data) + 1
        ),
        parse_options=pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
        convert_options=pcsv.ConvertOptions(
            column_types=wanted,
            include_columns=list(wanted),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    nulls = pa.nulls(table.num_rows, pa.binary())
    columns = [nulls if place == MISSING else table[f"f{place}"].combine_chunks() for place in places]
    return columns if is_utf8 else [_bytes_again(column) for column in columns], wrong


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_again(column: pa.Array) -> pa.Array:
    return pa.array(
        [None if value is None else value.decode().encode("latin-1") for value in column.to_pylist()], pa.binary()
    )

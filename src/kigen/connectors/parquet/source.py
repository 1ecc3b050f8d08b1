"""Reads `FROM parquet (path = ...)`: ranges of rows, counted by row group.

Invariant: a position is (file, row group, row in it), and ranges never span files. Values are converted without loss or
refused; a column that a file does not have is NULL. The checksum of a range is that of the bytes of its whole row
groups. Cost: a row group is decoded once while
ranges pass through it, and ahead of time (kigen.connectors.parquet.row_groups); the driver reads footers and the
timestamp column.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.ahead import Ahead
from kigen.connectors.bad_rows import BadRows, null_timestamp, wrong_type
from kigen.connectors.casting import bisect_cast, with_ts
from kigen.connectors.columns import MISSING, places_of
from kigen.connectors.input_files import Files
from kigen.connectors.options import path_of, suffixes_of
from kigen.connectors.parquet.row_groups import Group, RowGroups
from kigen.connectors.source_base import InputError, Position, Range, Rows, Source, Times, checked
from kigen.connectors.values.arrow_types import cast_lossless, may_become
from kigen.connectors.values.missing_columns import missing_in
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

_CHECKSUM = b"kigen.checksum"  # a key in the metadata of a decoded group


class ParquetSource(Source):
    def __init__(self, stream: SourceStream, directory: str, started_us: int | None = None) -> None:
        owner = f"stream '{stream.name}'"
        if stream.timestamp is None and not stream.table:
            raise InputError(
                f"{owner} comes from a file: write TIMESTAMP BY and the column that holds each tuple's time"
            )
        self.stream, self.timestamp = stream, stream.timestamp
        self.ahead = Ahead.of_file(stream, started_us)
        by_time = stream.source.option("order") == "time"
        self.files = Files(path_of(owner, stream.source), directory, suffixes_of(stream.source), by_time)
        self._footers: dict[str, tuple[pq.FileMetaData, tuple[str | None, ...]]] = {}
        self._groups = RowGroups(self._decode, self._following)
        self._times: tuple[Group, pa.Table] | None = None  # timestamps of the last group that the driver looked at

    def initial(self) -> Position:
        for name in self.files.names:
            self._footer(name)
        return {"file": self.files.names[0], "group": 0, "row": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        at = self._next_row(position)
        if at is None:
            return Range(self.stream.name, position, position, rows=0, ended=True)
        name, group, row = at["file"], int(at["group"]), int(at["row"])
        sizes = self._sizes(name)
        taken, last = 0, (group, row)
        while group < len(sizes) and taken < max(1, max_rows):
            step = min(sizes[group] - row, max(1, max_rows) - taken)
            if step:
                last = (group, row + step - 1)
            taken, row = taken + step, row + step
            if row == sizes[group]:
                group, row = group + 1, 0
        end = {"file": name, "group": group, "row": row}
        ended = self._next_row(end) is None
        return Range(self.stream.name, position, end, rows=taken, last_ts_us=self._ts_us(name, *last), ended=ended)

    def read(self, piece: Range) -> Rows:
        name, end = piece.end["file"], (int(piece.end["group"]), int(piece.end["row"]))
        group, row = (int(piece.start["group"]), int(piece.start["row"])) if piece.start["file"] == name else (0, 0)
        first = sum(self._sizes(name)[:group]) + row
        groups = [(name, g) for g in range(group, end[0] + (end[1] > 0))]
        parts = self._groups.get(groups) if groups else []
        if parts:
            parts[-1] = parts[-1].slice(0, end[1]) if end[1] else parts[-1]
            parts[0] = parts[0].slice(row)
        if not parts:
            columns = [pa.chunked_array([], c.type.arrow) for c in self.stream.schema]
            return Rows(with_ts(columns, self.stream.schema, self.timestamp))
        checksum = zlib.crc32(b"".join(part.schema.metadata[_CHECKSUM] for part in parts))
        checked(piece, Rows(parts[0], checksum=checksum), self.files.full(name))
        rows = self._typed(name, first, pa.concat_tables(parts))
        without = [c.name for c, found in zip(self.stream.schema, self._footer(name)[1], strict=True) if found is None]
        missing = missing_in(without, rows.table.num_rows + rows.skipped, self.files.full(name))
        return replace(rows, checksum=checksum, missing=missing)

    def range_of(self, name: str, first: int, end: int) -> Range:
        """Returns the range of the rows first..end-1 of a file."""

        def position(row: int) -> Position:
            for group, size in enumerate(self._sizes(name)):
                if row < size:
                    return {"file": name, "group": group, "row": row}
                row -= size
            return {"file": name, "group": len(self._sizes(name)), "row": row}

        return Range(self.stream.name, position(first), position(end), rows=end - first)

    def fraction(self, position: Position) -> float | None:
        counts = {name: sum(self._sizes(name)) for name in self.files.names}
        here = sum(self._sizes(position["file"])[: int(position["group"])]) + int(position["row"])
        done = here + sum(count for name, count in counts.items() if name < position["file"])
        return done / sum(counts.values()) if sum(counts.values()) else 1.0

    def _typed(self, name: str, first: int, table: pa.Table) -> Rows:
        bad = BadRows(self.files.full(name), self.stream.on_error_skip)
        columns = []
        for index, column in enumerate(self.stream.schema):
            found = table.column(index)
            if may_become(found.type, column.type):
                chunks = [bisect_cast(chunk, partial(cast_lossless, type_=column.type)) for chunk in found.chunks]
            else:  # another type than declared: every value is bad
                chunks = [(pa.nulls(len(c), column.type.arrow), _valid(c)) for c in found.chunks]
            values = pa.chunked_array([c for c, _ in chunks], column.type.arrow)
            before = 0
            for chunk, misfits in chunks:
                for at in misfits.tolist():
                    message = wrong_type(_text(found[before + at]), column.type)
                    bad.add(before + at, None, index, column.name, f"row {first + before + at + 1}: {message}")
                before += len(chunk)
            if index == self.timestamp and found.null_count:
                for at in np.flatnonzero(found.is_null().to_numpy()).tolist():
                    bad.add(at, None, index, column.name, f"row {first + at + 1}: {null_timestamp('NULL')}")
            if index == self.timestamp:
                for at in self.ahead.beyond(values).tolist():
                    bad.add(
                        at, None, index, column.name, f"row {first + at + 1}: {self.ahead.message(_text(found[at]))}"
                    )
            columns.append(values)
        skipped, errors = bad.settle()
        if skipped:
            keep = pa.array(bad.good(table.num_rows))
            columns = [c.filter(keep) for c in columns]
        wanted = skipped and self.stream.error_into is not None
        listed = bad.listed(lambda row: _row_text(table, row, self.stream.schema)) if wanted else ()
        return Rows(with_ts(columns, self.stream.schema, self.timestamp), skipped, errors, listed)

    def _next_row(self, position: Position) -> dict[str, Any] | None:
        """Returns the position of the next row at or after `position`; None if there is none."""
        name, group, row = position["file"], int(position["group"]), int(position["row"])
        for file in (name, *self.files.after(name)):
            sizes = self._sizes(file)
            while group < len(sizes):
                if row < sizes[group]:
                    return {"file": file, "group": group, "row": row}
                group, row = group + 1, 0
            group, row = 0, 0
        return None

    def _ts_us(self, name: str, group: int, row: int) -> int | None:
        if self.timestamp is None:  # a table
            return None
        if self._times is None or self._times[0] != (name, group):
            wanted = self._footer(name)[1][self.timestamp]
            assert wanted is not None, "a file without the timestamp is refused"
            self._times = (name, group), self._decode((name, group), (wanted,))
        values = self._times[1].column(0).slice(row, 1)
        try:
            found = cast_lossless(values.combine_chunks(), Type.TIMESTAMP)
        except pa.ArrowInvalid:
            return None
        return found.view(pa.int64())[0].as_py() if len(found) else None

    def _sizes(self, name: str) -> list[int]:
        footer = self._footer(name)[0]
        return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]

    def _following(self, group: Group) -> Iterator[Group]:
        """Yields the groups after one, over all files."""
        name, number = group
        for file in (name, *self.files.after(name)):
            yield from ((file, i) for i in range(number + 1 if file == name else 0, len(self._sizes(file))))

    def _decode(self, group: Group, wanted: tuple[str, ...] | None = None) -> pa.Table:
        name, number = group
        footer, names = self._footer(name)
        columns = [found for found in (names if wanted is None else wanted) if found is not None]
        try:
            with pq.ParquetFile(self.files.full(name), metadata=footer, pre_buffer=False) as file:
                table = file.read_row_group(number, columns=columns, use_threads=False).select(columns)
            if wanted is not None:
                return table
            for place, (found, column) in enumerate(zip(names, self.stream.schema, strict=True)):
                if found is None:
                    table = table.add_column(place, column.name, pa.nulls(table.num_rows, column.type.arrow))
            return table.replace_schema_metadata({_CHECKSUM: self._checksum(name, number, columns)})
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"row group {number} cannot be read: {error}", self.files.full(name)) from error

    def _checksum(self, name: str, number: int, columns: list[str]) -> bytes:
        """Returns the checksum of the compressed bytes of these columns in a row group: cheap compared with
        decoding."""
        group, found = self._footer(name)[0].row_group(number), 0
        with open(self.files.full(name), "rb") as file:
            for place in range(group.num_columns):
                column = group.column(place)
                if column.path_in_schema.split(".")[0] in columns:
                    first = column.data_page_offset if not column.has_dictionary_page else column.dictionary_page_offset
                    file.seek(first)
                    found = zlib.crc32(file.read(column.total_compressed_size), found)
        return f"{number}:{found:08x};".encode()

    def _footer(self, name: str) -> tuple[pq.FileMetaData, tuple[str | None, ...]]:
        """Returns the file's metadata and its names of the declared columns, None for those that it does not have;
        raises InputError if a column is missing that must be there, or has a wrong type while bad rows end the run."""
        if name not in self._footers:
            path = self.files.full(name)
            try:
                with pq.ParquetFile(path) as file:
                    footer, schema = file.metadata, file.schema_arrow
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"cannot be read as a parquet file: {error}", path) from error
            names: list[str | None] = []
            for column, place in zip(
                self.stream.schema, places_of(self.stream, schema.names, path, None, "the file"), strict=True
            ):
                if place == MISSING:
                    names.append(None)
                    continue
                found = schema.names[place]
                is_fatal = not self.stream.on_error_skip or len(names) == self.timestamp
                if is_fatal and not may_become(schema.field(found).type, column.type):
                    raise InputError(
                        f"{column.type} required, the file's column is {schema.field(found).type}",
                        path,
                        None,
                        column.name,
                    )
                names.append(found)
            self._footers[name] = (footer, tuple(names))
        return self._footers[name]


def _valid(chunk: pa.Array) -> Times:
    """Returns the places of values that are not NULL."""
    return np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))


def _row_text(table: pa.Table, row: int, schema: Schema) -> str:
    """Returns the declared columns of a row as JSON of texts."""
    values = {c.name: table.column(i)[row] for i, c in enumerate(schema)}
    return json.dumps({name: _text(value) if value.is_valid else None for name, value in values.items()})


def _text(value: pa.Scalar) -> str:
    """Returns a value as text. Python's times, which Arrow uses for text, end with the year 9999."""
    try:
        return str(value)
    except (OverflowError, ValueError):
        return f"{value.cast(pa.int64())} since 1970, in {value.type}"

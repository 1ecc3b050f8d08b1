"""`FROM parquet (path = ...)`: ranges of rows, counted by row group.

Invariant: a position is (file, row group, row in it); ranges never span files; values are taken over losslessly or refused. Cost: a
row group is decoded once while ranges pass through it (the latest is kept); the driver reads footers and the timestamp column.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.bad_rows import BadRows, null_timestamp, wrong_type
from kigen.connectors.base import InputError, Position, Range, Rows, Source
from kigen.connectors.casting import bisect_cast, with_ts
from kigen.connectors.columns import place_of
from kigen.connectors.files import Files
from kigen.connectors.options import check_names, path_of
from kigen.plan.nodes import Stream
from kigen.plan.types import Type

Group = tuple[str, int]


class ParquetSource(Source):
    def __init__(self, stream: Stream, directory: str) -> None:
        owner = f"stream '{stream.name}'"
        check_names(owner, stream.source, ("path",))
        if stream.timestamp is None:
            raise InputError(f"{owner} comes from a file: write TIMESTAMP BY and the column that holds each tuple's time")
        self.stream, self.timestamp = stream, stream.timestamp
        self.files = Files(path_of(owner, stream.source), directory, (".parquet",))
        self._footers: dict[str, tuple[pq.FileMetaData, tuple[str, ...]]] = {}
        self._kept: dict[str, tuple[Group, pa.Table]] = {}  # by 'all' and 'timestamp': the latest group decoded

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
        parts = []
        while (group, row) < end:
            table = self._group(name, group, "all")
            parts.append(table.slice(row, None if group < end[0] else end[1] - row))
            group, row = group + 1, 0
        if not parts:
            columns = [pa.chunked_array([], c.type.arrow) for c in self.stream.schema]
            return Rows(with_ts(columns, self.stream.schema, self.timestamp))
        return self._typed(name, first, pa.concat_tables(parts))

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
            chunks = [bisect_cast(chunk, partial(cast_lossless, type_=column.type)) for chunk in found.chunks]
            values = pa.chunked_array([c for c, _ in chunks], column.type.arrow)
            before = 0
            for chunk, misfits in chunks:
                for at in misfits.tolist():
                    message = wrong_type(str(found[before + at]), column.type)
                    bad.add(before + at, None, index, column.name, f"row {first + before + at + 1}: {message}")
                before += len(chunk)
            if index == self.timestamp and found.null_count:
                for at in np.flatnonzero(found.is_null().to_numpy()).tolist():
                    bad.add(at, None, index, column.name, f"row {first + at + 1}: {null_timestamp('NULL')}")
            columns.append(values)
        skipped, errors = bad.settle()
        if skipped:
            keep = pa.array(bad.good(table.num_rows))
            columns = [c.filter(keep) for c in columns]
        return Rows(with_ts(columns, self.stream.schema, self.timestamp), skipped, errors)

    def _next_row(self, position: Position) -> dict[str, Any] | None:
        """The place of the next row at or after `position`; None if there is none."""
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
        values = self._group(name, group, "timestamp").column(0).slice(row, 1)
        try:
            found = cast_lossless(values.combine_chunks(), Type.TIMESTAMP)
        except pa.ArrowInvalid:
            return None
        return found.view(pa.int64())[0].as_py() if len(found) else None

    def _sizes(self, name: str) -> list[int]:
        footer = self._footer(name)[0]
        return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]

    def _group(self, name: str, group: int, kind: str) -> pa.Table:
        kept = self._kept.get(kind)
        if kept is not None and kept[0] == (name, group):
            return kept[1]
        footer, names = self._footer(name)
        wanted = names if kind == "all" else (names[self.timestamp],)
        try:
            with pq.ParquetFile(self.files.full(name), metadata=footer) as file:
                table = file.read_row_group(group, columns=list(wanted)).select(list(wanted))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"row group {group} cannot be read: {error}", self.files.full(name)) from error
        self._kept[kind] = ((name, group), table)
        return table

    def _footer(self, name: str) -> tuple[pq.FileMetaData, tuple[str, ...]]:
        """The file's metadata and its names of the declared columns; raises InputError if one is missing or of a wrong type."""
        if name not in self._footers:
            path = self.files.full(name)
            try:
                with pq.ParquetFile(path) as file:
                    footer, schema = file.metadata, file.schema_arrow
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"not a parquet file that can be read: {error}", path) from error
            names = []
            for column in self.stream.schema:
                found = schema.names[place_of(column.name, schema.names, path, None, "the file")]
                if not _may_become(schema.field(found).type, column.type):
                    raise InputError(f"{column.type} required, the file's column is {schema.field(found).type}", path, None, column.name)
                names.append(found)
            self._footers[name] = (footer, tuple(names))
        return self._footers[name]


def _may_become(found: pa.DataType, wanted: Type) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(found):
        found = found.value_type
    is_number = kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_decimal(found)
    becomes: dict[Type, bool] = {
        Type.BOOLEAN: kinds.is_boolean(found),
        Type.BIGINT: is_number,
        Type.DOUBLE: is_number,
        Type.STRING: kinds.is_string(found) or kinds.is_large_string(found) or kinds.is_string_view(found),
        Type.TIMESTAMP: kinds.is_timestamp(found) or kinds.is_date(found),
    }
    return bool(kinds.is_null(found) or becomes[wanted])


def cast_lossless(values: pa.Array, type_: Type) -> pa.Array:
    """The declared type, or ArrowInvalid if a value does not fit; a timestamp without zone is UTC already."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if type_ is Type.TIMESTAMP and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).view(pa.timestamp("us"))
    return values.cast(type_.arrow)

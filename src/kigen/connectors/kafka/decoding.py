"""Decodes the values of messages: json, csv, raw and arrow. Each format gives the declared columns of its messages.

Invariant: whether a message is bad depends on that message alone, never on the messages that are read with it. Cost:
all values of a range are parsed together; if that fails, halves are tried, so one bad message costs a few more parses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.bad_rows import null_timestamp, shown
from kigen.connectors.casting import in_range
from kigen.connectors.csv.rows import Header, rows_of_csv
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.kafka.client import ClientOptions
from kigen.connectors.options import OptionError
from kigen.connectors.source_base import InputError
from kigen.connectors.text_files import Span
from kigen.connectors.values.unknown_fields import Unknown, merged
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

Values = Sequence[bytes | None]
Fault = tuple[str | None, str]  # column, what is wrong


@dataclass
class Decoded:
    """Columns of all good messages in order, the number of rows of each message, and what is wrong with bad ones."""

    columns: list[pa.ChunkedArray]
    counts: npt.NDArray[np.int64]
    faults: dict[int, Fault] = field(default_factory=dict)  # by message number
    unknown: Unknown = field(default_factory=dict)  # fields that the stream does not declare, of good messages


class Unavailable(InputError):
    """What is needed to decode messages is not there. The messages are not bad, so they are not skipped."""


class Decoder(ABC):
    """Decodes values to the columns of `schema`. `timestamp` is the place among them of TIMESTAMP BY, if any."""

    def __init__(self, stream: SourceStream, schema: Schema, timestamp: int | None, options: ClientOptions) -> None:
        self.schema, self.timestamp = schema, timestamp
        self._unknown: list[Unknown] = []  # of the messages that are being decoded
        # Bad messages are found here, so parsers must report the first one.
        self.stream = replace(stream, schema=schema, timestamp=timestamp, on_error_skip=False, shed=None)

    def decode(self, values: Values) -> Decoded:
        faults: dict[int, Fault] = {}
        parts: list[pa.Table] = []
        counts = np.zeros(len(values), np.int64)
        self._unknown = []
        if values:
            self._decode(values, 0, parts, counts, faults)
        columns = [
            pa.chunked_array([chunk for part in parts for chunk in part.column(i).chunks], c.type.arrow)
            for i, c in enumerate(self.schema)
        ]
        return Decoded(columns, counts, faults, merged(self._unknown))

    def _decode(
        self, values: Values, first: int, parts: list[pa.Table], counts: npt.NDArray[np.int64], faults: dict[int, Fault]
    ) -> None:
        fault: Fault
        before = len(self._unknown)
        try:
            table, rows = self.parse(values)
            parts.append(table)
            counts[first : first + len(values)] = rows
            return
        except Unavailable:
            raise
        except InputError as error:
            fault = error.field, error.message
        except pa.ArrowException as error:
            fault = None, str(error)
        del self._unknown[before:]
        if len(values) == 1:
            faults[first] = fault
            return
        half = len(values) // 2
        self._decode(values[:half], first, parts, counts, faults)
        self._decode(values[half:], first + half, parts, counts, faults)

    @abstractmethod
    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        """Returns the columns of all these messages, and the rows of each; raises InputError if one is bad. Reports
        other fields by `note_unknown`."""

    def note_unknown(self, unknown: Unknown) -> None:
        """Takes in fields that the stream does not declare."""
        if unknown:
            self._unknown.append(unknown)

    def nulls(self) -> pa.Table:
        """Returns the row of a message without a value."""
        if self.timestamp is not None:
            raise InputError(null_timestamp("a message without a value"), field=self.schema[self.timestamp].name)
        return pa.table([pa.nulls(1, c.type.arrow) for c in self.schema], names=_names(self.schema))


class JsonDecoder(Decoder):
    """One JSON object per message. A missing key is NULL; other keys are ignored."""

    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        if len(values) == 1:
            if values[0] is None:
                return self.nulls(), 1
            values = [values[0].replace(b"\n", b" ")]
        data = b"\n".join([b"" if value is None else value for value in values])
        if len(values) == 1 and not data.strip():
            raise InputError(f"a JSON object required, found {shown(data.decode())}")
        rows = rows_of_json(Span("", data, 1), self.stream, self.timestamp, "")
        if rows.table.num_rows != len(values):
            raise InputError("messages of several lines, or without a value, are read one by one")
        self.note_unknown(rows.unknown)
        return rows.table, 1


class CsvDecoder(Decoder):
    """One record of RFC 4180 per message, without a header: the columns in the order of their declaration."""

    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        if len(values) == 1 and values[0] is None:
            return self.nulls(), 1
        width = len(self.schema)
        header = Header(width, tuple(range(width)), 0, 1)
        data = b"\n".join([b"" if value is None else value.rstrip(b"\r\n") for value in values])
        table = rows_of_csv(Span("", data, 1), header, self.stream, self.timestamp, "").table
        if table.num_rows != len(values):
            found = f"found {table.num_rows}: {shown(data.decode(errors='backslashreplace'))}"
            raise InputError(f"one record of {width} fields required, {found}")
        return table, 1


class RawDecoder(Decoder):
    """The value as text, in the one column that is not taken from elsewhere."""

    def __init__(self, stream: SourceStream, schema: Schema, timestamp: int | None, options: ClientOptions) -> None:
        super().__init__(stream, schema, timestamp, options)
        if len(schema) > 1 or any(c.type is not Type.STRING for c in schema):
            listed = ", ".join(f"{c.name} {c.type}" for c in schema)
            raise OptionError(
                f"stream '{stream.name}': format 'raw' gives one STRING column, found {listed}: declare one, and take "
                "the others from the key, headers and so on by option columns",
                "format",
            )

    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        if not self.schema:
            return pa.table({"none": pa.nulls(len(values))}).select([]), 1
        try:
            texts = pa.array(values, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid as error:
            raise InputError(f"text in UTF-8 required: {error}", field=self.schema[0].name) from error
        return pa.table([texts], names=_names(self.schema)), 1


class ArrowDecoder(Decoder):
    """An Arrow IPC stream per message, with any number of rows; columns by name, a missing one is NULL. A message is
    bad as a whole."""

    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        tables = [self._table(value) for value in values]
        return pa.concat_tables(tables), [table.num_rows for table in tables]

    def _table(self, value: bytes | None) -> pa.Table:
        if value is None:
            return self.nulls()
        try:
            with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
                found = reader.read_all()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"an Arrow IPC stream required, found {len(value)} bytes: {error}") from error
        columns = [self._column(found, i) for i in range(len(self.schema))]
        others = {name for name in found.column_names if name not in {column.name for column in self.schema}}
        self.note_unknown(dict.fromkeys(sorted(others), found.num_rows))
        return pa.table(columns, names=_names(self.schema))

    def _column(self, found: pa.Table, index: int) -> pa.ChunkedArray:
        column = self.schema[index]
        is_timestamp = index == self.timestamp
        if column.name not in found.column_names:
            if is_timestamp:
                raise InputError(null_timestamp("no such column"), field=column.name)
            return pa.chunked_array([pa.nulls(found.num_rows, column.type.arrow)])
        values = found.column(column.name)
        try:
            if column.type is Type.TIMESTAMP:
                values = values.cast(pa.timestamp("us", values.type.tz if pa.types.is_timestamp(values.type) else None))
                chunks = [in_range(chunk.view(pa.timestamp("us"))) for chunk in values.chunks]
                values = pa.chunked_array(chunks, pa.timestamp("us"))
            else:
                values = values.cast(column.type.arrow)
        except (pa.ArrowException, AttributeError) as error:
            raise InputError(f"{column.type} required, found {values.type}: {error}", field=column.name) from error
        if is_timestamp and values.null_count:
            raise InputError(null_timestamp("NULL"), field=column.name)
        return values


DECODERS: dict[str, type[Decoder]] = {
    "json": JsonDecoder,
    "csv": CsvDecoder,
    "raw": RawDecoder,
    "arrow": ArrowDecoder,
}


def _names(schema: Schema) -> list[str]:
    return [f"c{i}" for i in range(len(schema))]

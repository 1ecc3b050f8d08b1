"""`INTO csv (path = ...)` and `--output DIR`: one RFC 4180 file, times in ISO-8601 UTC with microseconds.

Invariant: NULL is an empty unquoted field, the empty string is `""`; doubles read back to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kigen.connectors.csv.lines import csv_lines
from kigen.connectors.encoding import output_columns, times_of
from kigen.connectors.text_sink import TextEncoder, TextFileSink
from kigen.plan.types import Schema


class CsvEncoder(TextEncoder):
    def header(self) -> bytes:
        """Names may repeat, so the header is not left to a data frame."""
        names = [*(column.name for column in self.schema), *times_of(self.is_stream, self.changes)]
        quoted = [
            '"' + name.replace('"', '""') + '"' if not name or any(c in name for c in ',"\r\n') else name
            for name in names
        ]
        return (",".join(quoted) + "\n").encode()

    def lines(self, table: pa.Table) -> Iterator[memoryview]:
        return csv_lines(output_columns(table, self.schema, self.is_stream, self.changes))


class CsvSink(TextFileSink):
    def __init__(self, path: str, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        super().__init__(path, CsvEncoder(schema, is_stream, changes))

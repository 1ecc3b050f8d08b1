"""Writes `INTO jsonl (path = ...)`: one file with one JSON object per line (kigen.connectors.json_messages)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.json_messages import JsonMessages
from kigen.connectors.text_sink import TextEncoder, TextFileSink
from kigen.connectors.value_texts import offsets_of
from kigen.plan.types import Schema


class JsonlEncoder(TextEncoder):
    def lines(self, table: pa.Table) -> Iterator[memoryview]:
        for objects in JsonMessages(self.schema, self.is_stream, self.changes).texts(table):
            lines = pc.binary_join_element_wise(objects, "\n", "")
            yield memoryview(lines.buffers()[2])[: offsets_of(lines)[-1]]


class JsonlSink(TextFileSink):
    def __init__(self, path: str, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        super().__init__(path, JsonlEncoder(schema, is_stream, changes))

"""Writes `INTO kafka (brokers = ..., topic = ...)`: exactly once, by transactions (`producing`).

Modes: `append` (lines), `changes` (births and deaths) and `upsert` (the newest row by key; without a value when no row
has the key any more). Invariant: readers of committed messages see every row once, whatever was killed. The position is
the number of rows that were given. After a restart, rows that the topic already has are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.encoding import output_columns, times_of
from kigen.connectors.json_messages import JsonMessages, message_keys
from kigen.connectors.kafka.client import ClientOptions
from kigen.connectors.kafka.producing import TransactionalOutput
from kigen.connectors.options import duration_us
from kigen.connectors.requests import SinkRequest
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError

_ARROW_ROWS = 10_000  # rows of a message in format 'arrow'
_PIECE = 10_000
Pairs = list[tuple[bytes | None, bytes | None]]


class KafkaSink(Sink):
    def __init__(self, asked: SinkRequest) -> None:
        query, connector, schema, is_stream = asked.query, asked.connector, asked.schema, asked.is_stream
        self._mode = asked.mode
        super().__init__(schema, is_stream, changes=self._mode != "append")
        self._owner, self._query = f"query '{query}'", query
        self._options = ClientOptions(self._owner, connector, asked.directory)
        self._topic = self._options.text("topic")
        self._format = str(connector.option("format", "json"))
        wanted = [name.strip().lower() for name in str(connector.option("key", "")).split(",") if name.strip()]
        places = {column.name.lower(): i for i, column in reversed(list(enumerate(schema)))}
        self._key = [places[name] for name in wanted]
        self._json = JsonMessages(schema, is_stream, self.changes, bare=self._mode == "upsert")
        self.commit_interval_us = duration_us(self._owner, "commit", connector.option("commit", "100 ms"))
        self._output: TransactionalOutput | None = None
        self._rows = self._skip = 0

    def open(self, position: SinkPosition | None) -> None:
        """Finds out how many rows the topic has beyond `position`: they will be given again, and left out."""
        name = str(self._options.connector.option("transactional_id", f"kigen-{self.run_name}-{self._query}"))
        self._output = TransactionalOutput(
            self._options.config(), self._owner, self._topic, name, f"{self.run_name} {self._query}"
        )
        self._rows = 0 if position is None else int(position["rows"])
        there = self._output.begin()
        if there is not None and there < self._rows:
            raise InputError(
                f"{self._owner}: {self._rows} rows were committed to topic '{self._topic}', but its group '{name}' "
                f"records {there}: the broker has lost data. Start from the beginning with a new --checkpoint directory"
            )
        self._skip = 0 if there is None else there - self._rows

    def write(self, table: pa.Table) -> None:
        assert self._output is not None, "open first"
        self._rows += table.num_rows
        left_out = min(self._skip, table.num_rows)
        self._skip -= left_out
        news = table.slice(left_out)
        if news.num_rows:
            self._output.send(lambda: self._messages(news))

    def _messages(self, table: pa.Table) -> Iterator[Pairs]:
        if self._format == "arrow":
            yield [(None, self._arrow(table.slice(at, _ARROW_ROWS))) for at in range(0, table.num_rows, _ARROW_ROWS)]
            return
        for at in range(0, table.num_rows, _PIECE):
            piece = table.slice(at, _PIECE).combine_chunks()
            values: list[bytes | None] = []
            for texts in self._json.texts(piece):
                values += texts.cast(pa.binary()).to_pylist()
            if self._mode == "upsert":
                gone = pc.equal(piece["_op"], "delete").to_pylist()
                values = [None if is_gone else value for is_gone, value in zip(gone, values, strict=True)]
            keys: list[bytes | None] = [None] * len(values)
            if self._key:
                keys = message_keys([piece[f"c{i}"] for i in self._key]).cast(pa.binary()).to_pylist()
            yield list(zip(keys, values, strict=True))

    def _arrow(self, table: pa.Table) -> bytes:
        names = [column.name for column in self.schema] + list(times_of(self.is_stream, self.changes))
        block = pa.table(output_columns(table, self.schema, self.is_stream, self.changes), names=names)
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, block.schema) as writer:
            writer.write_table(block)
        return bytes(body.getvalue())

    def commit(self) -> SinkPosition:
        assert self._output is not None, "open first"
        self._output.commit(self._rows)
        return {"rows": self._rows}

    def interrupt(self) -> None:
        if self._output is not None:
            self._output.interrupt()

    def close(self) -> None:
        if self._output is not None:
            self._output.close()
            self._output = None

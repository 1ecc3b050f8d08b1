"""Writes `INTO spark (format = ..., key = value)`: each commit is a DataFrame that a writer of Spark appends.

Writers of Spark cannot tell whether they have written a batch before. So after a kill between the writing and the
record of it, the rows of that commit are written again: at least once. Outputs of Kigen's own are exactly once.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kigen.connectors.encoding import output_columns
from kigen.connectors.parquet.sink import ParquetEncoder
from kigen.connectors.requests import SinkRequest
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError

_OURS = ("format", "mode", "table")
_UTC = pa.timestamp("us", "UTC")


class SparkWriterSink(Sink):
    """Appends rows by `DataFrame.write`. The run sets `spark` when it begins."""

    commits_per_epoch = True  # a job of Spark each

    def __init__(self, asked: SinkRequest) -> None:
        super().__init__(asked.schema, asked.is_stream, asked.changes)
        self.spark: SparkSession | None = None
        self._into, self._query, self._directory = asked.connector, asked.query, asked.directory
        named = ParquetEncoder(self.schema, self.is_stream, self.changes).arrow_schema
        self._arrow = pa.schema([(f.name, _UTC if pa.types.is_timestamp(f.type) else f.type) for f in named])
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def open(self, position: SinkPosition | None) -> None:
        """Spark's writers cannot be cut back: what was written after `position` stays."""
        self._waiting, self._rows = [], 0 if position is None else int(position["rows"])

    def write(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        if table.num_rows:
            self._waiting.append(table)

    def commit(self) -> SinkPosition:
        if self._waiting:
            assert self.spark is not None, "the run has begun"
            columns = output_columns(pa.concat_tables(self._waiting), self.schema, self.is_stream, self.changes)
            frame = self.spark.createDataFrame(pa.table(columns, names=self._arrow.names).cast(self._arrow))
            try:
                writer = frame.write.format(str(self._into.option("format"))).options(**self._options()).mode("append")
                table = self._into.option("table")
                writer.save() if table is None else writer.saveAsTable(str(table))
            except Exception as error:
                cause = str(error).strip().splitlines()[0]
                raise InputError(f"query '{self._query}': Spark's writer failed: {cause}") from error
            self._waiting = []
        return {"rows": self._rows}

    def _options(self) -> dict[str, Any]:
        found = {key: value for key, value in self._into.options if key not in _OURS}
        path = found.get("path")
        if isinstance(path, str) and "://" not in path:
            found["path"] = f"file://{os.path.abspath(os.path.join(self._directory, path))}"
        return found

    def close(self) -> None:
        self._waiting = []

"""Reads a table of Spark as it is now: a batch DataFrame, or what a reader of Spark finds.

Cost: a job of Spark, and all rows pass the driver.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kigen.connectors import InputError
from kigen.plan.logical import SourceStream
from kigen.plan.types import arrow_schema
from kigen.spark.dataframes.columns import selected
from kigen.spark.session.error_cause import error_cause


class TableFrame:
    """Reads one table. `frame` is the user's own; None: the options of the table say what to read."""

    def __init__(self, spark: SparkSession, stream: SourceStream, frame: DataFrame | None) -> None:
        self._spark, self._stream, self._frame = spark, stream, frame

    def __call__(self) -> pa.Table:
        try:
            frame = self._load() if self._frame is None else self._frame
            found = selected(frame, self._stream.schema).toArrow()
        except PySparkException as error:
            raise InputError(f"table '{self._stream.name}': Spark cannot read it: {error_cause(error)}") from error
        schema = arrow_schema(self._stream.schema)
        columns = [_plain(column).cast(f.type) for column, f in zip(found.columns, schema, strict=True)]
        return pa.table(columns, schema=schema).combine_chunks()

    def _load(self) -> DataFrame:
        source = self._stream.source
        if source.option("format") == "DataFrame":
            raise InputError(
                f"table '{self._stream.name}': its DataFrame is missing; give it by Engine.table(name, frame)"
            )
        options = {key: value for key, value in source.options if key != "format"}
        return self._spark.read.format(str(source.option("format"))).options(**options).load()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Spark labels times with the session's zone; the instants are the same."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return column

"""Results of queries as parquet files: written by a run for its `RunResult`, and read again by Spark or pyarrow.

Spark reads the files when a DataFrame is used, on its executors: no row passes the driver.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kigen.connectors import open_sink
from kigen.connectors.parquet.partitioned import PartitionedParquetSink
from kigen.connectors.parquet.sink import ParquetSink
from kigen.plan.logical import Connector, Query

_GLOB = re.compile(r"([\\{}\[\]*?])")  # what Hadoop would expand in a path


def results_sink(query: Query, directory: Path) -> ParquetSink:
    """Returns the sink of a run that keeps the query's results below `directory`."""
    return _parquet(Connector("parquet", (("path", query.name),)), query, str(directory))


def into_sink(query: Query, directory: str) -> ParquetSink | None:
    """Returns the sink of the query's own INTO parquet; None if it has none."""
    if query.into is None or query.into.name != "parquet":
        return None
    return _parquet(query.into, query, directory)


def _parquet(connector: Connector, query: Query, directory: str) -> ParquetSink:
    sink = open_sink(connector, query.schema, query.root.is_stream, directory, query.name)
    assert isinstance(sink, ParquetSink)
    return sink


def read_dataframe(spark: SparkSession, sink: ParquetSink) -> DataFrame:
    """Returns the rows in the sink's files as a DataFrame; times are Spark timestamps, instants in UTC."""
    schema = from_arrow_schema(_zoned(sink.arrow_schema))
    if not _parts(sink):
        return spark.createDataFrame([], schema)
    path = "file://" + _GLOB.sub(r"\\\1", str(Path(sink.path).absolute()))
    frame = spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED").parquet(path)
    return frame.select(*(f"`{name.replace('`', '``')}`" for name in schema.names))  # partitions would come last


def read_arrow(sink: ParquetSink) -> pa.Table:
    """Returns the rows in the sink's files as a table; times are in UTC."""
    if isinstance(sink, PartitionedParquetSink):
        return sink.read().cast(_zoned(sink.arrow_schema))
    parts = [pq.read_table(part) for part in _parts(sink)]
    table = pa.concat_tables(parts) if parts else sink.arrow_schema.empty_table()
    return table.cast(_zoned(sink.arrow_schema))


def _parts(sink: ParquetSink) -> list[Path]:
    return sorted(Path(sink.path).rglob("part-*.parquet"))


def _zoned(schema: pa.Schema) -> pa.Schema:
    """The schema with all timestamps in UTC: those of the user's columns have no zone in the files."""
    utc = pa.timestamp("us", "UTC")
    return pa.schema([pa.field(f.name, utc if pa.types.is_timestamp(f.type) else f.type) for f in schema])

"""Results as DataFrames: what the library keeps of a run beside its outputs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from kigen.connectors import open_sink
from kigen.connectors.parquet.sink import ParquetSink
from kigen.plan.logical import Connector, Query
from kigen.spark.session.start import quiet


def results_sink(query: Query, directory: Path) -> ParquetSink:
    sink = open_sink(
        Connector("parquet", (("path", query.name),)), query.schema, query.root.is_stream, str(directory), query.name
    )
    assert isinstance(sink, ParquetSink)
    return sink


def results_frame(spark: SparkSession, query: Query, directory: Path) -> DataFrame:
    """The query's lines; times are Spark timestamps, instants in UTC."""
    sink = results_sink(query, directory)
    parts = sorted(Path(sink.path).glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts]) if parts else sink.arrow_schema.empty_table()
    zoned = [
        pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema
    ]
    with quiet():
        return spark.createDataFrame(table.cast(pa.schema(zoned)))

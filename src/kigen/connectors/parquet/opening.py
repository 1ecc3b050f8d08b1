"""Opens the connector parquet: chooses the sink: one file per commit, partitioned folders, or rolling files."""

from __future__ import annotations

from kigen.connectors.follow.opening import followed
from kigen.connectors.options import OptionError, duration_us, size_bytes
from kigen.connectors.parquet.partitioned import PartitionedParquetSink
from kigen.connectors.parquet.rolling import RollingParquetSink
from kigen.connectors.parquet.sink import ParquetSink
from kigen.connectors.parquet.source import ParquetSource
from kigen.connectors.requests import SinkRequest, SourceRequest
from kigen.connectors.sink_base import Sink
from kigen.connectors.source_base import Source
from kigen.plan.logical import columns_of


def open_source(asked: SourceRequest) -> Source:
    """Returns the source of the files, followed or paced if the stream says so."""
    return followed(asked, ParquetSource(asked.stream, asked.directory, asked.start_us))


def open_sink(asked: SinkRequest) -> Sink:
    """Returns the sink that the options ask for."""
    parts = columns_of(asked.schema, str(asked.connector.option("partition_by", "")))
    owner, size, every = asked.owner, *(asked.connector.option(o) for o in ("roll_size", "roll_every"))
    if parts and (size is not None or every is not None):
        raise OptionError(f"{owner}: partition_by and rolling exclude each other: keep one", "partition_by")
    if parts:
        return PartitionedParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes, parts)
    if size is not None or every is not None:
        roll_bytes = None if size is None else size_bytes(owner, "roll_size", size)
        roll_us = None if every is None else duration_us(owner, "roll_every", every)
        return RollingParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes, roll_bytes, roll_us)
    return ParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes)

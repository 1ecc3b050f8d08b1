"""Opens connectors: turns `FROM name (...)` into a `Source` and `INTO name (...)` into a `Sink`.

A new connector is a folder here, one line in `_SOURCES` or `_SINKS`, and its description in
`kigen.plan.connector_specs`.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from kigen.connectors.console.sink import ConsoleSink
from kigen.connectors.csv.sink import CsvSink
from kigen.connectors.csv.source import CsvSource
from kigen.connectors.follow.source import FollowedSource
from kigen.connectors.jsonl.sink import JsonlSink
from kigen.connectors.jsonl.source import JsonlSource
from kigen.connectors.kafka.sink import KafkaSink
from kigen.connectors.kafka.source import KafkaSource
from kigen.connectors.options import OptionError, check_names, duration_us, path_of, size_bytes
from kigen.connectors.paced.source import PacedSource
from kigen.connectors.parquet.partitioned import PartitionedParquetSink
from kigen.connectors.parquet.rolling import RollingParquetSink
from kigen.connectors.parquet.sink import ParquetSink
from kigen.connectors.parquet.source import ParquetSource
from kigen.connectors.sink_base import Sink
from kigen.connectors.source_base import InputError, Source
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.connectors.table.source import TableSource
from kigen.connectors.text_files import TextSource
from kigen.plan.connector_specs import SINKS, SOURCES, ConnectorSpec, connector_named
from kigen.plan.logical import Connector, SourceStream, columns_of
from kigen.plan.types import Schema

__all__ = ["SINKS", "SOURCES", "open_sink", "open_source"]


@dataclass(frozen=True)
class _SourceRequest:
    stream: SourceStream
    directory: str
    draining: bool
    start_us: int | None
    checkpoint: str | None

    @property
    def ends(self) -> bool:
        """Whether files are read to the size that they have now: in a drain, and if they are recorded ones."""
        return self.draining or self.stream.source.option("pace") is not None


@dataclass(frozen=True)
class _SinkRequest:
    connector: Connector
    schema: Schema
    is_stream: bool
    directory: str
    query: str

    @property
    def changes(self) -> bool:
        return str(self.connector.option("mode", "append")) != "append"

    @property
    def path(self) -> str:
        return os.path.join(self.directory, path_of(f"query '{self.query}'", self.connector))


def _csv(asked: _SourceRequest) -> Source:
    return _growing(asked, CsvSource(asked.stream, asked.directory, asked.start_us, asked.ends))


def _jsonl(asked: _SourceRequest) -> Source:
    return _growing(asked, JsonlSource(asked.stream, asked.directory, asked.start_us, asked.ends))


def _parquet(asked: _SourceRequest) -> Source:
    return _growing(asked, ParquetSource(asked.stream, asked.directory, asked.start_us))


def _growing(asked: _SourceRequest, files: TextSource | ParquetSource) -> Source:
    """Returns the source that follows or paces the files if the stream says so. A drain reads what is there."""
    if not asked.draining and asked.stream.source.option("pace") is not None:
        return PacedSource(asked.stream, files, asked.start_us)
    if asked.draining or not asked.stream.source.option("follow", False):
        return files
    return FollowedSource(asked.stream, asked.directory, files, asked.checkpoint)


_SOURCES: dict[str, Callable[[_SourceRequest], Source]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "kafka": lambda asked: KafkaSource(asked.stream, asked.directory, asked.draining),
    "parquet": _parquet,
    "synthetic": lambda asked: SyntheticSource(asked.stream, asked.draining, asked.start_us),
}


def _parquet_sink(asked: _SinkRequest) -> Sink:
    parts = columns_of(asked.schema, str(asked.connector.option("partition_by", "")))
    owner, size, every = f"query '{asked.query}'", *(asked.connector.option(o) for o in ("roll_size", "roll_every"))
    if parts and (size is not None or every is not None):
        raise OptionError(f"{owner}: partition_by and rolling exclude each other: keep one", "partition_by")
    if parts:
        return PartitionedParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes, parts)
    if size is not None or every is not None:
        roll_bytes = None if size is None else size_bytes(owner, "roll_size", size)
        roll_us = None if every is None else duration_us(owner, "roll_every", every)
        return RollingParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes, roll_bytes, roll_us)
    return ParquetSink(asked.path, asked.schema, asked.is_stream, asked.changes)


def _sink_of_extra(asked: _SinkRequest, extra: str, package: str, maker: str) -> Sink:
    """Opens a sink that needs a package of an extra, which is imported only now."""
    try:
        module = importlib.import_module(f"kigen.connectors.{extra}.sink")
    except ModuleNotFoundError as error:
        message = (
            f"connector '{extra}' needs the package {package}, which is not installed: pip install 'kigen[{extra}]'"
        )
        raise OptionError(message) from error
    made: Sink = getattr(module, maker)(asked.connector, asked.query, asked.schema, asked.is_stream, asked.directory)
    return made


_SINKS: dict[str, Callable[[_SinkRequest], Sink]] = {
    "console": lambda asked: ConsoleSink(asked.query, asked.schema, asked.is_stream, asked.changes),
    "csv": lambda asked: CsvSink(asked.path, asked.schema, asked.is_stream, asked.changes),
    "delta": lambda asked: _sink_of_extra(asked, "delta", "deltalake", "DeltaSink"),
    "jsonl": lambda asked: JsonlSink(asked.path, asked.schema, asked.is_stream, asked.changes),
    "parquet": _parquet_sink,
    "kafka": lambda asked: KafkaSink(asked.query, asked.connector, asked.schema, asked.is_stream, asked.directory),
    "postgres": lambda asked: _sink_of_extra(asked, "postgres", "psycopg", "PostgresSink"),
}


def open_source(
    stream: SourceStream, directory: str, draining: bool, start_us: int | None, checkpoint: str | None = None
) -> Source:
    """Returns the stream's connector; does no I/O yet. `start_us` is when the run began: the times of a live synthetic
    stream, and AHEAD of a file, count from it. `checkpoint` is where a source on the driver may keep records of its
    own."""
    owner = f"stream '{stream.name}'"
    spec = _spec(owner, stream.source, SOURCES)
    columns = tuple(c.name for c in stream.schema) if spec.column_kind is not None else ()
    check_names(owner, stream.source, (*spec.options, *spec.source_options, *columns))
    if spec.is_pushed:
        raise InputError(f"{owner} is pushed: a run reads it from its ingest queue, which only the run can open")
    if stream.table:
        return _open_table(spec.name, _SourceRequest(stream, directory, draining, start_us, checkpoint))
    return _SOURCES[spec.name](_SourceRequest(stream, directory, draining, start_us, checkpoint))


def _open_table(name: str, asked: _SourceRequest) -> Source:
    if asked.stream.refresh_us is not None and not asked.draining:
        raise OptionError(
            f"table '{asked.stream.name}': REFRESH EVERY needs --drain, which reads a table once; "
            "for a live run leave it out, and start the run again to read the table again"
        )
    whole = replace(asked, draining=True, start_us=None)
    return TableSource(asked.stream, lambda: _SOURCES[name](whole), asked.checkpoint)


def open_sink(connector: Connector, schema: Schema, is_stream: bool, directory: str, name: str) -> Sink:
    """Returns the sink for the results of query `name`; does no I/O before `Sink.open`."""
    owner = f"query '{name}'"
    spec = _spec(owner, connector, SINKS)
    check_names(owner, connector, tuple(spec.into_options))
    return _SINKS[spec.name](_SinkRequest(connector, schema, is_stream, directory, name))


def _spec(owner: str, connector: Connector, known: tuple[str, ...]) -> ConnectorSpec:
    spec = connector_named(connector.name)
    if spec is not None and spec.name in known:
        return spec
    near = difflib.get_close_matches(connector.name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
    raise OptionError(f"{owner}: no connector '{connector.name}'; {hint}")

"""From a declaration to a connector: `FROM name (...)` to a `Source`, `INTO name (...)` to a `Sink`."""

from __future__ import annotations

import difflib
import os

from kigen.connectors.console.sink import ConsoleSink
from kigen.connectors.csv.sink import CsvSink
from kigen.connectors.csv.source import CsvSource
from kigen.connectors.jsonl.source import JsonlSource
from kigen.connectors.options import OptionError, check_names, path_of
from kigen.connectors.parquet.sink import ParquetSink
from kigen.connectors.parquet.source import ParquetSource
from kigen.connectors.sink_base import Sink
from kigen.connectors.source_base import Source
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Schema

SOURCES = ("csv", "parquet", "jsonl", "synthetic")
SINKS = ("csv", "parquet", "console")


def open_source(stream: SourceStream, directory: str, draining: bool, start_us: int | None) -> Source:
    """The stream's connector; no I/O yet. `start_us` is when the run began: a live synthetic stream's times, and AHEAD
    of a file, count from it."""
    match stream.source.name.lower():
        case "csv":
            return CsvSource(stream, directory, start_us, draining)
        case "parquet":
            return ParquetSource(stream, directory, start_us)
        case "jsonl" | "json":
            return JsonlSource(stream, directory, start_us, draining)
        case "synthetic":
            return SyntheticSource(stream, draining, start_us)
    raise _unknown(f"stream '{stream.name}'", stream.source.name, SOURCES)


def open_sink(connector: Connector, schema: Schema, is_stream: bool, directory: str, name: str) -> Sink:
    """Where the results of query `name` go; no I/O before `Sink.open`."""
    owner = f"query '{name}'"
    match connector.name.lower():
        case "console":
            check_names(owner, connector, ())
            return ConsoleSink(name, schema, is_stream)
        case "csv":
            check_names(owner, connector, ("path",))
            return CsvSink(os.path.join(directory, path_of(owner, connector)), schema, is_stream)
        case "parquet":
            check_names(owner, connector, ("path",))
            return ParquetSink(os.path.join(directory, path_of(owner, connector)), schema, is_stream)
    raise _unknown(owner, connector.name, SINKS)


def _unknown(owner: str, name: str, known: tuple[str, ...]) -> OptionError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
    return OptionError(f"{owner}: no connector '{name}'; {hint}")

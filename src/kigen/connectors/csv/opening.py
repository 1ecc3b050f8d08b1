"""Opens the connector csv."""

from __future__ import annotations

from kigen.connectors.csv.sink import CsvSink
from kigen.connectors.csv.source import CsvSource
from kigen.connectors.follow.opening import followed
from kigen.connectors.requests import SinkRequest, SourceRequest
from kigen.connectors.source_base import Source


def open_source(asked: SourceRequest) -> Source:
    """Returns the source of the files, followed or paced if the stream says so."""
    return followed(asked, CsvSource(asked.stream, asked.directory, asked.start_us, asked.ends))


def open_sink(asked: SinkRequest) -> CsvSink:
    """Returns the sink of one file."""
    return CsvSink(asked.path, asked.schema, asked.is_stream, asked.changes)

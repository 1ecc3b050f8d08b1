"""Opens the connector jsonl."""

from __future__ import annotations

from kigen.connectors.follow.opening import followed
from kigen.connectors.jsonl.sink import JsonlSink
from kigen.connectors.jsonl.source import JsonlSource
from kigen.connectors.requests import SinkRequest, SourceRequest
from kigen.connectors.source_base import Source


def open_source(asked: SourceRequest) -> Source:
    """Returns the source of the files, followed or paced if the stream says so."""
    return followed(asked, JsonlSource(asked.stream, asked.directory, asked.start_us, asked.ends))


def open_sink(asked: SinkRequest) -> JsonlSink:
    """Returns the sink of one file."""
    return JsonlSink(asked.path, asked.schema, asked.is_stream, asked.changes)

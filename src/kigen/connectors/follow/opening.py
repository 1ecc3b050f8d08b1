"""Chooses the source of files: as they are, followed as they grow, or paced as they were recorded."""

from __future__ import annotations

from kigen.connectors.follow.source import FollowedSource
from kigen.connectors.paced.source import PacedSource
from kigen.connectors.parquet.source import ParquetSource
from kigen.connectors.requests import SourceRequest
from kigen.connectors.source_base import Source
from kigen.connectors.text_files import TextSource


def followed(asked: SourceRequest, files: TextSource | ParquetSource) -> Source:
    """Returns the source that follows or paces the files if the stream says so. A drain reads what is there."""
    if not asked.draining and asked.stream.source.option("pace") is not None:
        return PacedSource(asked.stream, files, asked.start_us)
    if asked.draining or not asked.stream.source.option("follow", False):
        return files
    return FollowedSource(asked.stream, asked.directory, files, asked.checkpoint)

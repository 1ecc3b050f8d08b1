"""What Kigen asks of a connector: the arguments of the source, sink and receiver that a description names."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kigen.connectors.options import path_of
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Schema

if TYPE_CHECKING:
    from kigen.connectors.pushed import IngestQueue

ReadTable = Callable[[], "tuple[pa.Table, dict[str, Any]]"]  # a table as it is now: c0, c1, ..., and what to note of it


@dataclass(frozen=True)
class SourceRequest:
    """Asks for the `Source` of a stream. Relative paths count from `directory`, that of the app file."""

    stream: SourceStream
    directory: str
    draining: bool  # whether the run reads what is there and ends
    start_us: int | None  # when the run began
    checkpoint: str | None  # where a source on the driver may keep records of its own

    @property
    def ends(self) -> bool:
        """Whether files are read to the size that they have now: in a drain, and if they are recorded ones."""
        return self.draining or self.stream.source.option("pace") is not None


@dataclass(frozen=True)
class SinkRequest:
    """Asks for the `Sink` of a query's results. Relative paths count from `directory`, that of the app file."""

    connector: Connector
    schema: Schema
    is_stream: bool  # whether results are a stream, with `_at`; else they are a relation, with `_from` and `_to`
    directory: str
    query: str

    @property
    def mode(self) -> str:
        return str(self.connector.option("mode", "append"))

    @property
    def changes(self) -> bool:
        """Whether the sink gets changes (`_op`, `_at`): in every mode but append."""
        return self.mode != "append"

    @property
    def owner(self) -> str:
        """The query, as messages name it."""
        return f"query '{self.query}'"

    @property
    def path(self) -> str:
        return os.path.join(self.directory, path_of(self.owner, self.connector))


@dataclass(frozen=True)
class ReceiverRequest:
    """Asks for the `Receiver` of a pushed stream."""

    stream: SourceStream
    ingest: IngestQueue
    directory: str
    session: str | None  # names a session that outlives the run, the same at each start; None: the run is the first
    notify: Callable[[str], None]  # takes warnings for the user


class Receiver(ABC):
    """Receives the tuples of a pushed stream, in threads of its own, and appends them to its ingest queue."""

    error: Exception | None = None  # what ended the receiver

    @abstractmethod
    def start(self) -> None:
        """Begins to receive."""

    @abstractmethod
    def close(self) -> None:
        """Ends the receiver. What is not acknowledged to the sender comes again."""

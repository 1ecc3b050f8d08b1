"""Where results go: a `Sink` writes tables and can say, durably, how far it has come.

Invariant: `open(mark)` leaves exactly what had been written when `mark()` gave that mark, whatever was written or half
written after it; so a replayed batch is neither lost nor doubled. Tables hold c0, c1, ... and `_from`, `_to` (int64
microseconds, `_to` NULL if undetermined) or `_at`. Large results come as files that a worker has encoded
(kigen.connectors.encoding): `adopt`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from kigen.connectors.encoding import Encoder
from kigen.plan.types import Schema

Mark = dict[str, Any]  # JSON


class Sink(ABC):
    syncs = True  # what `mark` names outlives a power cut; False: a kill of the process only

    def __init__(self, schema: Schema, is_stream: bool) -> None:
        self.schema, self.is_stream = schema, is_stream

    @abstractmethod
    def open(self, mark: Mark | None) -> None:
        """None: a fresh start, which removes what an earlier run left; else cut back to that mark."""

    @abstractmethod
    def write(self, table: pa.Table) -> None: ...

    @abstractmethod
    def mark(self) -> Mark:
        """How far the output reaches; as durable as `syncs` says when this returns."""

    @abstractmethod
    def close(self) -> None: ...

    def interrupt(self) -> None:  # noqa: B027 - most never wait
        """Ends a `write` or `mark` that waits for somebody else, from another thread; what it was at is given up."""

    def encoder(self) -> Encoder | None:
        """What workers encode large results with; None: results must come as tables."""
        return None

    def adopt(self, path: str) -> None:
        """Take over a file that this sink's encoder has finished; it is moved or deleted."""
        raise TypeError(f"{type(self).__name__} takes no files, got {path}")

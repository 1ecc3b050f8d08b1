"""Defines `Sink`: the connector that writes a query's results and reports, durably, how far its output reaches.

Invariant: `open(position)` leaves exactly what had been written when `commit` returned that position. Anything written
or half written after it is removed, so a replayed batch is neither lost nor doubled. Tables hold c0, c1, ... and
`_from`, `_to` (int64 microseconds, `_to` is NULL if undetermined) or `_at`. A sink whose mode is not `append` gets
changes: `_at` and `_op` (kigen.lifetimes.results). Large results arrive as files that a worker has encoded
(kigen.connectors.encoding): see `adopt`.

Tables come in an order that depends only on the input, so a sink may number its rows: after a restart the rows that
follow a position are the same ones again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from kigen.connectors.encoding import Encoder
from kigen.plan.types import Schema

SinkPosition = dict[str, Any]  # how far an output reaches; plain JSON, recorded in the sink log


class Sink(ABC):
    """Writes the results of one query. Does no I/O before `open`."""

    run_name = ""  # of the checkpoint: by it, an output that is not a file recognizes its own work
    syncs = True  # whether committed output survives a power cut; False: it survives only a kill of the process
    commit_interval_us = 0  # the least time between two calls of `commit`, except at the end of an epoch
    commits_per_epoch = False  # whether `commit` is called only at the end of an epoch: it is costly, or makes a file

    def __init__(self, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        self.schema, self.is_stream, self.changes = schema, is_stream, changes

    @abstractmethod
    def open(self, position: SinkPosition | None) -> None:
        """Cuts the output back to `position`. None starts afresh and removes what an earlier run left."""

    @abstractmethod
    def write(self, table: pa.Table) -> None: ...

    def end_round(self) -> None:  # noqa: B027 - most sinks need not know
        """Ends a round: all its rows are written. Rounds are the same in a replay, groups of rounds are not."""

    @abstractmethod
    def commit(self) -> SinkPosition:
        """Makes everything written so far as durable as `syncs` says and returns how far the output reaches."""

    @property
    def waits(self) -> bool:
        """Whether a later `commit` is to show what is committed already, even if nothing more is written."""
        return False

    @abstractmethod
    def close(self) -> None: ...

    def interrupt(self) -> None:  # noqa: B027 - most sinks never wait
        """Ends, from another thread, a `write` or `commit` that waits for another process; its work is abandoned."""

    def encoder(self) -> Encoder | None:
        """Returns what workers encode large results with; None if results must arrive as tables."""
        return None

    def adopt(self, path: str) -> None:
        """Takes over a file that this sink's encoder has finished; the file is moved or deleted."""
        raise TypeError(f"{type(self).__name__} cannot adopt files, got {path}")

"""Writes into a store that has transactions of its own: a transaction also stores how many rows it has reached.

Rows come in an order that depends only on the input. So after a restart the sink leaves out the rows that the store has
beyond the recorded position, and every row is there exactly once, even if a transaction happened whose position was
never recorded.
"""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.plan.types import Schema


class NumberedSink(Sink):
    """Collects rows and stores them with their number, one transaction per commit."""

    def __init__(self, owner: str, schema: Schema, is_stream: bool, changes: bool) -> None:
        super().__init__(schema, is_stream, changes)
        self._owner = owner
        self._waiting: list[pa.Table] = []
        self._rows = 0  # given to `write`, in all
        self._skip = 0  # rows to come that the store has already

    @abstractmethod
    def _open(self, recorded: int) -> int:
        """Opens the store and returns how many rows of this output it has. Calls `_require` with that number before it
        changes anything."""

    @abstractmethod
    def _store(self, rows: pa.Table, reached: int) -> None:
        """Stores the rows, and `reached`, the number of rows with them, in one transaction."""

    def _require(self, stored: int, recorded: int) -> None:
        """Raises InputError if the store lacks rows that the checkpoint records."""
        if stored < recorded:
            raise InputError(
                f"{self._owner}: the checkpoint records {recorded} rows, and the output has {stored}: it is older than "
                "the checkpoint. Restore both from the same time, or use a new --checkpoint"
            )

    def open(self, position: SinkPosition | None) -> None:
        recorded = 0 if position is None else int(position["rows"])
        try:
            stored = self._open(recorded)
        except BaseException:
            self.close()
            raise
        self._waiting, self._rows, self._skip = [], recorded, stored - recorded

    def write(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        old = min(self._skip, table.num_rows)
        self._skip -= old
        if table.num_rows > old:
            self._waiting.append(table.slice(old))

    def commit(self) -> SinkPosition:
        if self._waiting:
            self._store(pa.concat_tables(self._waiting), self._rows)
            self._waiting = []
        return {"rows": self._rows}

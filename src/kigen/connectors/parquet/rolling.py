"""Writes `INTO parquet (path = ..., roll_size = '128 MB', roll_every = '10 min')`: few large parts instead of many.

Each commit makes a piece, a hidden file that readers do not see. When the pieces are large or old enough, they become
one part. Invariant: a piece is removed only after a position without it was recorded, so opening at any recorded
position finds its pieces again. `close` shows the rest as a part; if the run continues, that part is made anew.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

import pyarrow.parquet as pq

from kigen.connectors.encoding import Encoder
from kigen.connectors.parquet.sink import ParquetSink
from kigen.connectors.sink_base import SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, move, remove, sync_directory
from kigen.plan.types import Schema

_PIECE = re.compile(r"\.piece-([0-9]{5,})-([0-9]{5,})\.parquet(\.tmp)?")
_NEVER = 1 << 62


class RollingParquetSink(ParquetSink):
    """Merges what commits wrote into parts. `roll_bytes` and `roll_us`: None, if only the other one counts."""

    def __init__(
        self,
        path: str,
        schema: Schema,
        is_stream: bool,
        changes: bool,
        roll_bytes: int | None,
        roll_us: int | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path, schema, is_stream, changes)
        self._roll_bytes, self._roll_us, self._clock = roll_bytes or _NEVER, roll_us or _NEVER, clock
        self._pieces = 0  # of the part to come
        self._since_us = 0  # when the first of them was written
        self._bytes = 0
        self._old: list[str] = []  # pieces to remove once the next position is recorded

    def open(self, position: SinkPosition | None) -> None:
        super().open(position)
        self._pieces, self._since_us = (0, 0) if position is None else (int(position["pieces"]), int(position["since"]))
        kept = {self._piece(n) for n in range(self._pieces)}
        for name in os.listdir(self.path):
            file = os.path.join(self.path, name)
            if _PIECE.fullmatch(name) and file not in kept:
                remove(file)
        missing = next((file for file in sorted(kept) if not os.path.exists(file)), None)
        if missing is not None:
            raise InputError("the checkpoint needs this piece: restore it, or use a new checkpoint", missing)
        self._bytes, self._old = sum(os.path.getsize(file) for file in kept), []

    def encoder(self) -> Encoder | None:  # type: ignore[override]
        return None

    def commit(self) -> SinkPosition:
        for file in self._old:  # the position that follows them has been recorded
            remove(file)
        self._old = []
        self._flush()
        if self._pieces and (self._bytes >= self._roll_bytes or self._age_us() >= self._roll_us):
            self._old = [self._piece(n) for n in range(self._pieces)]
            self._place(self._merged())
            self._pieces = self._bytes = 0
        if self.syncs:
            sync_directory(self.path)
        return {"parts": self._parts, "pieces": self._pieces, "since": self._since_us}

    @property
    def waits(self) -> bool:
        return self._pieces > 0 and self._roll_us != _NEVER

    def close(self) -> None:
        if self._pieces:
            self._place(self._merged())
            self._pieces = 0
        self._waiting.take()

    def _age_us(self) -> int:
        return round(self._clock() * 1e6) - self._since_us

    def _flush(self) -> None:
        if not self._waiting:
            return
        if not self._pieces:
            self._since_us = round(self._clock() * 1e6)
        self._encoder.syncs = self.syncs
        temporary = f"{self._piece(self._pieces)}.tmp"
        piece = self._encoder.start(temporary)
        for table in self._waiting.take():
            piece.add(table)
        piece.finish()
        move(temporary, self._piece(self._pieces), self.syncs)
        self._bytes += os.path.getsize(self._piece(self._pieces))
        self._pieces += 1

    def _piece(self, number: int) -> str:
        return os.path.join(self.path, f".piece-{self._parts:05d}-{number:05d}.parquet")

    def _merged(self) -> str:
        """Merges the pieces into a temporary file, row group by row group, and returns its path."""
        temporary = os.path.join(self.path, f".part-{self._parts:05d}.parquet.tmp")
        file = WrittenFile(temporary)
        with pq.ParquetWriter(file, self.arrow_schema) as writer:
            for number in range(self._pieces):
                with pq.ParquetFile(self._piece(number)) as piece:
                    for batch in piece.iter_batches(1 << 19):
                        writer.write_batch(batch, row_group_size=1 << 20)
        if self.syncs:
            file.sync()
        file.close()
        return temporary

"""`FROM link`: reads a stream of another node from a queue of this node's own server.

On the driver, a thread reads the queue. For each row that was not polled yet it keeps only when the tuple behind it
arrived at its first node. Workers read ranges of rows by offset. A watermark row (kigen.lifetimes.exchange.sent) has an
offset, but is not a tuple for a policy. It is read together with the rows before it, which are admitted only once it
has arrived. A watermark row without tuples waits until its time matters. Invariant: a range always gives the same rows,
as long as it is not acknowledged. Nothing is acknowledged that a replay may need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.source_base import BIRTHS_FROM, InputError, LiveSource, Position, Range, Rows, Times
from kigen.lifetimes.exchange.received import input_of_rows
from kigen.lifetimes.exchange.sent import is_watermark, queue_schema
from kigen.links import READER, Link, Security
from kigen.links.flight.tokens import require_private
from kigen.plan.logical import SourceStream
from kigen.queue import QueueError
from kigen.queue.payload import require_columns
from kigen.spark.links.arrived_rows import ArrivedRows, Flags

_HALT_US = 1_000.0  # a step of a task
_READ_WAIT_S = 60.0  # the rows exist, so a read waits only for a very slow disk


@dataclass(frozen=True)
class Access:
    """How Spark's processes reach their node's server.

    Spark's options carry it, and others can see them. So it contains no token or key, but the name of a file with a
    reader's token. `halting` is for nodes with a standby (see `input_of_rows`).
    """

    server: str
    token_file: str
    roots: bytes = b""  # certificates, which are public
    halting: bool = False

    @property
    def security(self) -> Security:
        token = Path(self.token_file)
        require_private(token)
        return Security(token.read_text(encoding="utf-8").strip(), roots=self.roots, role=READER, derived=True)


class LinkSource(LiveSource):
    """Source of a stream that another node sends."""

    live = has_watermark_rows = True

    def __init__(self, stream: SourceStream, access: Access) -> None:
        self.stream, self._access = stream, access
        self.step_us = _HALT_US if access.halting else 0.0
        self._queue = str(stream.source.option("queue"))
        self._schema = queue_schema(stream.schema, is_stream=not stream.source.option("relation"))
        self._link: Link | None = None
        self._watcher: _QueueWatcher | None = None

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a stream from another node is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None

    # --- on the driver -----------------------------------------------------------------------------------------------

    @property
    def _queue_watcher(self) -> _QueueWatcher:
        if self._watcher is None:
            self._watcher = _QueueWatcher(self._connect(), self._queue, self._schema, self._rows)
        return self._watcher

    def arrived_by(self, now_us: int) -> int:
        return self._queue_watcher.known()

    def arrivals_us(self, first: int, end: int) -> Times:
        return self._queue_watcher.arrivals(first, end)

    def due(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        return self._queue_watcher.due(first, end)

    def complete_us(self, now_us: int) -> int | None:
        return self._queue_watcher.progress_before(self._queue_watcher.known())

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return self._queue_watcher.progress_before(number)

    def total(self) -> int | None:
        return self._queue_watcher.total

    # --- in workers --------------------------------------------------------------------------------------------------

    def read(self, piece: Range) -> Rows:
        first, end = int(piece.start["index"]), int(piece.end["index"])
        rows, dropped = _without_births(self._rows(first, end), int(piece.start.get(BIRTHS_FROM, first)) - first)
        given = input_of_rows(rows, self._access.halting)
        table = given.tables[0] if given.tables else rows.slice(0, 0).rename_columns(_names(rows))
        return Rows(table, shed=dropped, arrivals_us=_int64(table.column("_arrived")), given=given)

    def _rows(self, first: int, end: int) -> pa.Table:
        parts: list[pa.RecordBatch] = []
        at = first
        while at < end:
            link = self._connect()
            got = link.read(self._queue, at, wait_s=_READ_WAIT_S, max_tuples=end - at)
            if not got.count:
                raise InputError(f"stream '{self.stream.name}': rows {at} to {end} are missing in its queue")
            require_columns(got.schema, self._schema, self.stream.name)
            parts += got.batches
            at = got.next
        return pa.Table.from_batches(parts, self._schema)

    def _connect(self) -> Link:
        if self._link is None:
            self._link = Link(self._access.server, self._access.security)
        return self._link


class _QueueWatcher:
    """Reads the queue in a thread and indexes its rows (`kigen.spark.links.arrived_rows`)."""

    def __init__(self, link: Link, queue: str, schema: pa.Schema, rows: Callable[[int, int], pa.Table]) -> None:
        self._link, self._queue, self._schema, self._rows = link, queue, schema, rows
        self._lock = threading.Lock()
        self._seen, self._first = ArrivedRows(0), 0
        self._failed: QueueError | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._work, name=f"follow {queue}", daemon=True).start()

    @property
    def total(self) -> int | None:
        return self._seen.total

    def known(self) -> int:
        self._begun.wait(_READ_WAIT_S)
        if self._failed is not None:
            raise self._failed
        return self._seen.known

    def arrivals(self, first: int, end: int) -> Times:
        return self._poll(first, end)[0]

    def due(self, first: int, end: int) -> Flags:
        """Selects all tuples, and a first watermark row if the tuple before it was polled without it."""
        _, watermarks, follows_a_tuple = self._poll(first, end)
        found = ~watermarks
        if len(found) and not found[0] and follows_a_tuple:
            found[0] = True
        return found

    def _poll(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        if first < end:
            with self._lock:
                if first >= self._seen.kept_from:
                    found = self._seen.poll(first, end)
                    if len(found[0]) == end - first:
                        return found
            return self._read_again(first, end)
        return np.zeros(0, np.int64), np.zeros(0, np.bool_), False

    def _read_again(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        """Reads rows from the queue that were forgotten, or that arrived a moment ago."""
        begin = max(first - 1, self._first)
        rows = self._rows(begin, end)
        again = ArrivedRows(begin)
        again.add(begin, _int64(rows.column("_arrived")), np.asarray(is_watermark(rows).to_numpy(), bool))
        return again.poll(first, end)

    def progress_before(self, number: int) -> int | None:
        with self._lock:
            return self._seen.progress_before(number)

    def _work(self) -> None:
        try:
            self._first = int(self._link.status(self._queue)["start"])
            self._seen = ArrivedRows(self._first)
            self._begun.set()
            for got in self._link.follow(self._queue, self._first, skip_trimmed=True):
                require_columns(got.schema, self._schema, self._queue)
                offset = got.first
                for batch in got.batches:
                    arrived = _int64(batch.column("_arrived"))
                    watermarks = np.asarray(is_watermark(batch).to_numpy(zero_copy_only=False), bool)
                    with self._lock:
                        self._seen.add(offset, arrived, watermarks)
                    offset += len(arrived)
                with self._lock:
                    self._seen.acknowledged(got.start)
        except QueueError as error:
            self._failed = error
            self._begun.set()


def _without_births(rows: pa.Table, count: int) -> tuple[pa.Table, pa.Table | None]:
    """Removes the tuples that are born in the first `count` rows. Deaths and watermarks stay: a death may be that of
    an earlier tuple. Returns the rows that stay, and those removed."""
    if count <= 0:
        return rows, None
    head, time = rows.slice(0, count), "_at" if "_at" in rows.column_names else "_from"
    born = pc.is_valid(head.column(time))
    return pa.concat_tables([head.filter(pc.invert(born)), rows.slice(count)]), head.filter(born)


def _names(rows: pa.Table) -> list[str]:
    return ["_ts" if name == "_at" else name for name in rows.column_names]


def _int64(column: Any) -> Times:
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)

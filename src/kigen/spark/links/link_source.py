"""`FROM link`: a stream that comes from another node. Its rows lie in a queue of this node's own server; Spark's
processes read them there.

On the driver a thread follows the queue and keeps, of each row that was not looked at yet, only when the tuple behind
it arrived at its first node; workers read ranges of rows by offset. A mark (kigen.lifetimes.exchange.sent) has an
offset, but is no tuple to a policy: it is read with the rows it follows, which are not known here before it is; where
time alone has passed, it waits until that matters. Invariant: a range gives the same rows always, as long as it is not
acknowledged; nothing is acknowledged that a replay may ask for.
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

from kigen.connectors.source_base import InputError, LiveSource, Position, Range, Rows, Times
from kigen.lifetimes.exchange.received import input_of_rows
from kigen.lifetimes.exchange.sent import is_mark, queue_schema
from kigen.links import READER, Link, Security
from kigen.links.flight.tokens import require_private
from kigen.plan.logical import SourceStream
from kigen.queue import QueueError
from kigen.queue.payload import require_columns
from kigen.spark.links.arrived_rows import ArrivedRows, Flags

_READ_WAIT_S = 60.0  # a worker's: the rows are there, unless the disk is very slow


@dataclass(frozen=True)
class Access:
    """How Spark's processes reach their node's server. `halting`: see `input_of_rows`; for nodes that stand by for each
    other.

    It travels in Spark's options, which many can see: so neither token nor key is in it, but the name of a file with a
    reader's token."""

    server: str
    token_file: str
    roots: bytes = b""  # certificates: anybody may know them
    halting: bool = False

    @property
    def security(self) -> Security:
        token = Path(self.token_file)
        require_private(token)
        return Security(token.read_text(encoding="utf-8").strip(), roots=self.roots, role=READER, derived=True)


class LinkSource(LiveSource):
    live = marked = True

    def __init__(self, stream: SourceStream, access: Access) -> None:
        self.stream, self._access = stream, access
        self._queue = str(stream.source.option("queue"))
        self._schema = queue_schema(stream.schema, is_stream=not stream.source.option("relation"))
        self._link: Link | None = None
        self._follower: _QueueWatcher | None = None

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a stream from another node is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None

    # --- on the driver -----------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> _QueueWatcher:
        if self._follower is None:
            self._follower = _QueueWatcher(self._connect(), self._queue, self._schema, self._rows)
        return self._follower

    def arrived_by(self, now_us: int) -> int:
        return self._followed.known()

    def arrivals_us(self, first: int, end: int) -> Times:
        return self._followed.arrivals(first, end)

    def due(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        return self._followed.due(first, end)

    def complete_us(self, now_us: int) -> int | None:
        return self._followed.progress_before(self._followed.known())

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return self._followed.progress_before(number)

    def total(self) -> int | None:
        return self._followed.total

    # --- in workers --------------------------------------------------------------------------------------------------

    def read(self, piece: Range) -> Rows:
        first, end = int(piece.start["index"]), int(piece.end["index"])
        rows = self._rows(first, end)
        given = input_of_rows(rows, self._access.halting)
        table = given.tables[0] if given.tables else rows.slice(0, 0).rename_columns(_names(rows))
        return Rows(table, arrivals_us=_int64(table.column("_arrived")), given=given)

    def _rows(self, first: int, end: int) -> pa.Table:
        parts: list[pa.RecordBatch] = []
        at = first
        while at < end:
            link = self._connect()
            got = link.read(self._queue, at, wait_s=_READ_WAIT_S, max_tuples=end - at)
            if not got.count:
                raise InputError(f"stream '{self.stream.name}': rows {at} to {end} of its queue are not there")
            require_columns(got.schema, self._schema, self.stream.name)
            parts += got.batches
            at = got.next
        return pa.Table.from_batches(parts, self._schema)

    def _connect(self) -> Link:
        if self._link is None:
            self._link = Link(self._access.server, self._access.security)
        return self._link


class _QueueWatcher:
    """Follows the queue in a thread: what has come, up to the last mark, and not been looked at
    (`kigen.spark.links.arrived_rows`)."""

    def __init__(self, link: Link, queue: str, schema: pa.Schema, rows: Callable[[int, int], pa.Table]) -> None:
        self._link, self._queue, self._schema, self._rows = link, queue, schema, rows
        self._lock = threading.Lock()
        self._followed, self._followed_start = ArrivedRows(0), 0
        self._failed: QueueError | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._work, name=f"follow {queue}", daemon=True).start()

    @property
    def total(self) -> int | None:
        return self._followed.total

    def known(self) -> int:
        self._begun.wait(_READ_WAIT_S)
        if self._failed is not None:
            raise self._failed
        return self._followed.known

    def arrivals(self, first: int, end: int) -> Times:
        return self._look(first, end)[0]

    def due(self, first: int, end: int) -> Flags:
        """All but marks; but a mark, too, if what it follows was looked at without it."""
        _, marks, follows_a_tuple = self._look(first, end)
        found = ~marks
        if len(found) and not found[0] and follows_a_tuple:
            found[0] = True
        return found

    def _look(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        if first < end:
            with self._lock:
                if first >= self._followed.kept_from:
                    found = self._followed.look(first, end)
                    if len(found[0]) == end - first:
                        return found
            return self._read_again(first, end)
        return np.zeros(0, np.int64), np.zeros(0, np.bool_), False

    def _read_again(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        """Rows that were looked at before, or came a moment ago."""
        begin = max(first - 1, self._followed_start)
        rows = self._rows(begin, end)
        again = ArrivedRows(begin)
        again.add(begin, _int64(rows.column("_arrived")), np.asarray(is_mark(rows).to_numpy(), bool))
        return again.look(first, end)

    def progress_before(self, number: int) -> int | None:
        with self._lock:
            return self._followed.progress_before(number)

    def _work(self) -> None:
        try:
            self._followed_start = int(self._link.status(self._queue)["start"])
            self._followed = ArrivedRows(self._followed_start)
            self._begun.set()
            for got in self._link.follow(self._queue, self._followed_start, skip_trimmed=True):
                require_columns(got.schema, self._schema, self._queue)
                offset = got.first
                for batch in got.batches:
                    arrived = _int64(batch.column("_arrived"))
                    marks = np.asarray(is_mark(batch).to_numpy(zero_copy_only=False), bool)
                    with self._lock:
                        self._followed.add(offset, arrived, marks)
                    offset += len(arrived)
                with self._lock:
                    self._followed.acknowledged(got.start)
        except QueueError as error:
            self._failed = error
            self._begun.set()


def _names(rows: pa.Table) -> list[str]:
    return ["_ts" if name == "_at" else name for name in rows.column_names]


def _int64(column: Any) -> Times:
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)

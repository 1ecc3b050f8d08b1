"""`FROM link`: a stream that comes from another node. Its rows lie in a queue of this node's own server; Spark's processes read them there.

On the driver a thread follows the queue and keeps, of each row, only when the tuple behind it arrived at its first node; workers read
ranges of rows by offset. A mark (kigen.lifetimes.sent) has an offset, but is no tuple to a policy: it is read with the rows it follows,
which are not known here before it is; where time alone has passed, it waits until that matters.
Invariant: a range gives the same rows always, as long as it is not acknowledged; nothing is acknowledged that a replay may ask for.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.base import InputError, LiveSource, Position, Range, Rows, Times
from kigen.lifetimes.received import input_of_rows
from kigen.lifetimes.sent import END_OF_TIME, is_end, is_mark, outputs_of_hole, queue_schema
from kigen.links import Link, LinkError, Security
from kigen.plan.nodes import Stream

_READ_WAIT_S = 60.0  # a worker's: the rows are there, unless the disk is very slow


@dataclass(frozen=True)
class Access:
    """How Spark's processes reach their node's server. `halting`: see `input_of_rows`; for nodes that stand by for each other."""

    server: str
    security: Security = field(default_factory=Security)
    halting: bool = False


class LinkSource(LiveSource):
    live = marked = True

    def __init__(self, stream: Stream, access: Access) -> None:
        self.stream, self._access = stream, access
        self._queue = str(stream.source.option("queue"))
        self._schema = queue_schema(stream.schema, is_stream=not stream.source.option("relation"))
        self._link: Link | None = None
        self._follower: _Follower | None = None

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a stream from another node is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None

    # --- on the driver -----------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> _Follower:
        if self._follower is None:
            self._follower = _Follower(self._connect(), self._queue)
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
            parts += got.batches
            at = got.next
        return pa.Table.from_batches(parts, self._schema)

    def _connect(self) -> Link:
        if self._link is None:
            self._link = Link(self._access.server, self._access.security)
        return self._link


class _Follower:
    """What the driver knows of the queue, up to the last mark: when every row arrived, and which are marks."""

    def __init__(self, link: Link, queue: str) -> None:
        self._link, self._queue = link, queue
        self._lock = threading.Lock()
        self._first = 0  # offset of the first row kept here
        self._times: list[Times] = []
        self._is_mark: list[npt.NDArray[np.bool_]] = []
        self._known: int | None = None
        self._marks: list[tuple[int, int]] = []  # offset behind a mark, its progress
        self.total: int | None = None
        self._failed: LinkError | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._work, name=f"follow {queue}", daemon=True).start()

    def known(self) -> int:
        self._begun.wait(_READ_WAIT_S)
        if self._failed is not None:
            raise self._failed
        return self._known or 0

    def arrivals(self, first: int, end: int) -> Times:
        with self._lock:
            while len(self._times) > 1 and self._first + len(self._times[0]) < first:
                self._first += len(self._times.pop(0))
                del self._is_mark[0]
            if len(self._times) > 1:
                self._times, self._is_mark = [np.concatenate(self._times)], [np.concatenate(self._is_mark)]
            return self._times[0][first - self._first : end - self._first] if self._times else np.zeros(0, np.int64)

    def due(self, first: int, end: int) -> npt.NDArray[np.bool_]:
        """All but marks; but a mark, too, if what it follows was looked at without it."""
        self.arrivals(first, end)
        with self._lock:
            begin = first - self._first
            found = ~self._is_mark[0][begin : end - self._first]
            if len(found) and not found[0] and begin > 0 and not self._is_mark[0][begin - 1]:
                found[0] = True
            return found

    def progress_before(self, number: int) -> int | None:
        with self._lock:
            at = bisect_right(self._marks, (number, END_OF_TIME))
            return self._marks[at - 1][1] if at else None

    def _work(self) -> None:
        try:
            at = int(self._link.status(self._queue)["start"])
            self._first = self._known = at
            self._begun.set()
            newest = 0
            for got in self._link.follow(self._queue, at, skip_trimmed=True):
                newest = self._add(got.first, got.batches, newest)
        except LinkError as error:
            self._failed = error
            self._begun.set()

    def _add(self, offset: int, batches: list[Any], newest: int) -> int:
        for batch in batches:
            arrived = _int64(batch.column("_arrived"))
            marks = np.asarray(is_mark(batch).to_numpy(zero_copy_only=False), bool)
            times = np.where(marks, 0, arrived)
            times = np.maximum.accumulate(np.maximum(times, newest))
            newest = int(times[-1])
            with self._lock:
                assert self._known is not None
                for place in np.flatnonzero(marks).tolist():
                    if is_end(int(arrived[place])):
                        self.total = offset + place + 1
                    elif outputs_of_hole(int(arrived[place])) is None:
                        self._marks.append((offset + place + 1, int(arrived[place])))
                del self._marks[:-4096]
                self._times.append(times)
                self._is_mark.append(marks)
                if bool(marks.any()):
                    self._known = offset + int(np.flatnonzero(marks)[-1]) + 1
                offset += len(times)
        return newest


def _names(rows: pa.Table) -> list[str]:
    return ["_ts" if name == "_at" else name for name in rows.column_names]


def _int64(column: Any) -> Times:
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)

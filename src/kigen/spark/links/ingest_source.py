"""Reads a pushed stream (`FROM http`, `FROM mqtt`) from its ingest queue, which the command's process serves.

On the driver, a thread follows the queue and keeps the arrival times of tuples that were not polled yet. Workers read
ranges by offset. Without TIMESTAMP BY the watermark is the arrival clock (`kigen.connectors.pushed.arrival_clock`), so
an idle stream holds nobody up; with it, the timestamps of the tuples decide, in the kernel. Invariant: a range gives
the same rows each time, until no replay needs it. Cost: memory for tuples that have arrived and were not polled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors.pushed.arrival_clock import ArrivalClock
from kigen.connectors.pushed.ingest_queue import ingest_schema
from kigen.connectors.pushed.left_out import left_out_of
from kigen.connectors.source_base import InputError, LiveSource, Position, Range, Rows, Times
from kigen.lifetimes.blocks import FOREVER
from kigen.links import Link
from kigen.plan.logical import SourceStream
from kigen.queue import QueueError
from kigen.queue.payload import require_columns
from kigen.spark.links.link_source import Access

_READ_WAIT_S = 60.0  # the rows exist, so a read waits only for a very slow disk


@dataclass(frozen=True)
class IngestAccess:
    """How Spark's processes reach the ingest queues. `clocks` is a folder on the driver's machine."""

    access: Access
    clocks: str
    streams: tuple[str, ...]

    def has(self, stream: str) -> bool:
        return stream in self.streams

    def clock(self, stream: str) -> Path:
        return Path(self.clocks) / f"{stream}.clock"


class IngestSource(LiveSource):
    """Source of a pushed stream."""

    live = has_shed = True

    def __init__(self, stream: SourceStream, ingest: IngestAccess) -> None:
        self.stream, self._ingest = stream, ingest
        self._schema = ingest_schema(stream.schema)
        self._link: Link | None = None
        self._follower: _Follower | None = None
        self._clock: ArrivalClock | None = None
        self._complete_us: int | None = None
        self._call: Callable[[], None] = _nobody

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a pushed stream is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None

    def total(self) -> int | None:
        return None

    # --- on the driver -----------------------------------------------------------------------------------------------

    def arrived_by(self, now_us: int) -> int:
        """Returns how many tuples have arrived, and sets the watermark that belongs to them: `now_us` was taken
        before."""
        if self._follower is None:
            self._clock = ArrivalClock(self._ingest.clock(self.stream.name))
            self._follower = _Follower(self._connect(), self.stream.name, self._schema, self._call)
        assert self._clock is not None
        pending_us, end = self._clock.look()
        known, last_us = self._follower.known()
        if self.stream.timestamp is None:
            complete_us = min(now_us, pending_us) if known >= end else last_us
            if complete_us is not None:
                self._complete_us = max(complete_us, self._complete_us or complete_us)
        return known

    def arrivals_us(self, first: int, end: int) -> Times:
        if first >= end:
            return np.zeros(0, np.int64)
        found = None if self._follower is None else self._follower.arrivals(first, end)
        return _int64(self._rows(first, end).column("_arrived")) if found is None else found

    def complete_us(self, now_us: int) -> int | None:
        return self._complete_us

    def call_on_news(self, call: Callable[[], None]) -> bool:
        assert self._follower is None, "before anything is asked"
        self._call = call
        return True

    def completes_at_us(self, watermark_us: int) -> int:
        return watermark_us if self.stream.timestamp is None else FOREVER

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return arrival_us if self.stream.timestamp is None else None

    # --- in workers --------------------------------------------------------------------------------------------------

    def read(self, piece: Range) -> Rows:
        rows = self._rows(int(piece.start["index"]), int(piece.end["index"]))
        arrived, at = rows.column("_arrived"), self.stream.timestamp
        ts = arrived if at is None else rows.column(f"c{at}").cast(pa.int64())
        left_out = left_out_of(rows.column("_note").drop_null().to_pylist())
        table = rows.select(list(range(len(self.stream.schema)))).append_column("_ts", ts)
        gone = left_out.shed_table(self.stream)
        rows = Rows(table, left_out.skipped, left_out.errors, left_out.bad, gone, _int64(arrived))
        return replace(rows, unknown=left_out.unknown, missing=left_out.missing)

    def _rows(self, first: int, end: int) -> pa.Table:
        parts: list[pa.RecordBatch] = []
        at = first
        while at < end:
            got = self._connect().read(self.stream.name, at, wait_s=_READ_WAIT_S, max_tuples=end - at)
            if not got.count:
                raise InputError(f"stream '{self.stream.name}': tuples {at} to {end} are missing in its queue")
            require_columns(got.schema, self._schema, self.stream.name)
            parts += got.batches
            at = got.next
        return pa.Table.from_batches(parts, self._schema)

    def _connect(self) -> Link:
        if self._link is None:
            self._link = Link(self._ingest.access.server, self._ingest.access.security)
        return self._link


class _Follower:
    """Follows the queue in a thread. Arrivals before the last poll are forgotten."""

    def __init__(self, link: Link, queue: str, schema: pa.Schema, call: Callable[[], None]) -> None:
        """Calls `call` after each change of what is known."""
        self._link, self._queue, self._schema, self._call = link, queue, schema, call
        self._lock = threading.Lock()
        self._blocks: deque[tuple[int, Times]] = deque()  # offset of the first tuple, arrivals
        self._known, self._last_us = 0, None  # type: int, int | None
        self._failed: QueueError | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._work, name=f"follow {queue}", daemon=True).start()

    def known(self) -> tuple[int, int | None]:
        """Returns how many tuples are known here, and the arrival of the last one."""
        self._begun.wait(_READ_WAIT_S)
        if self._failed is not None:
            raise self._failed
        with self._lock:
            return self._known, self._last_us

    def arrivals(self, first: int, end: int) -> Times | None:
        """Returns arrivals of these tuples, and forgets those before them; None if some are forgotten already."""
        with self._lock:
            while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= first:
                self._blocks.popleft()
            if not self._blocks or self._blocks[0][0] > first:
                return None
            parts = []
            for offset, times in self._blocks:
                if offset >= end:
                    break
                parts.append(times[max(0, first - offset) : end - offset])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _work(self) -> None:
        try:
            first = int(self._link.status(self._queue)["start"])
            with self._lock:
                self._known = first
            self._begun.set()
            for got in self._link.follow(self._queue, first, skip_trimmed=True):
                require_columns(got.schema, self._schema, self._queue)
                offset = got.first
                for batch in got.batches:
                    arrived = _int64(batch.column("_arrived"))
                    if not len(arrived):
                        continue
                    with self._lock:
                        self._blocks.append((offset, arrived))
                        offset += len(arrived)
                        self._known, self._last_us = offset, int(arrived[-1])
                self._call()
        except QueueError as error:
            self._failed = error
            self._begun.set()
            self._call()


def _nobody() -> None:
    """Called where nobody has asked for calls."""


def _int64(column: Any) -> Times:
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)

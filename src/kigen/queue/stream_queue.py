"""A named stream's queue: append blocks, read by offset, acknowledge, trim. It is bounded, and durable if requested.

Every tuple has an offset. `queue_appends` holds the appending side. Tuples below the least ack of the required readers
are trimmed. The queue carries the watermark of its producers: no older tuple will come.

Invariant: offsets [start, end) can be read and give the same tuples each time; `start`, `end` and the watermark never
decrease. Threads: every method may be called from any thread. There is one lock, which is not held while blocks are
encoded, decoded or read from files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kigen.queue.errors import OffsetAhead, OffsetTrimmed, TrimNoteMissing
from kigen.queue.pieces import ReadResult, select
from kigen.queue.producers_and_readers import Reader
from kigen.queue.queue_appends import QueueAppends
from kigen.queue.record import ENDED


class Queue(QueueAppends):
    """The queue of one named stream."""

    def open_reader(self, name: str, epoch: int | None = None, at: int | None = None) -> Reader:
        """Opens a reader, with the given epoch if there is one. `at`: the reader needs nothing below this offset."""
        with self._open():
            reader = self._clients.open_reader(name, epoch, at)
            self._trimmed(self._clients.trim(), sync=self._sync_each)
            return Reader(**vars(reader))

    def read(
        self,
        offset: int,
        max_tuples: int = 1 << 20,
        max_bytes: int = 1 << 26,
        *,
        min_tuples: int = 1,
        wait_s: float = 0.0,
        known_progress_us: int | None = None,
        skip_trimmed: bool = False,
        may_be_ahead: bool = False,
    ) -> ReadResult:
        """Returns tuples from `offset` on, at most `max_tuples` and `max_bytes`.

        Waits up to `wait_s` until there are `min_tuples`, or a watermark above `known_progress_us`. Returns whole
        batches of `min_tuples`, unless the stream has ended. `skip_trimmed`: begins at the first offset that is still
        kept, and raises TrimNoteMissing if the note for the skipped range is not known here. `may_be_ahead`: also waits
        beyond the end.
        """
        deadline = time.monotonic() + wait_s
        with self._open():
            while True:
                first = self._readable(offset, skip_trimmed, may_be_ahead)
                there = self._clients.end - first
                last = self._clients.progress_us == ENDED
                ready = there >= max(min_tuples, 1) or (there > 0 and last)
                whole = there if last else there // max(min_tuples, 1) * max(min_tuples, 1)
                result = self._select(first, min(max_tuples, whole) if ready else 0, max_bytes)
                news = known_progress_us is not None and result.progress_us > known_progress_us
                left = deadline - time.monotonic()
                if ready or news or left <= 0:
                    return result
                self._wait(left)

    def ack(self, reader: str, offset: int, epoch: int | None = None, note: str = "") -> int:
        """Acknowledges all offsets below `offset`. Returns the first offset still kept."""
        with self._open():
            if self._clients.ack(reader, offset, epoch, note):
                self._trimmed(self._clients.trim(), sync=False)
            return self._clients.start

    def require(self, readers: Sequence[str]) -> int:
        """Keeps what any of these readers has not acknowledged. An empty list keeps everything."""
        with self._open():
            self._clients.required = sorted(set(readers))
            self._trimmed(self._clients.trim(), sync=self._sync_each)
            return self._clients.start

    def trim(self, offset: int) -> int:
        """Removes all tuples below `offset`, acknowledged or not."""
        with self._open():
            self._trimmed(self._clients.trim_to(offset), sync=self._sync_each)
            return self._clients.start

    def status(self) -> dict[str, Any]:
        """Returns positions, lags and sizes as JSON."""
        with self._changed:
            clients, store = self._clients, self._store
            lags = {name: max(0, clients.end - r.ack) for name, r in clients.readers.items()}
            return {
                "stream": self.name,
                **clients.to_json(),
                "progress_us": clients.progress_us,
                "lag": lags,
                "kept_tuples": clients.end - clients.start,
                "kept_bytes": store.kept_bytes,
                "memory_bytes": store.memory_used,
                "disk_bytes": store.disk_bytes,
                "durable": self.settings.durable,
            }

    def _readable(self, offset: int, skip_trimmed: bool, may_be_ahead: bool) -> int:
        start, end = self._clients.start, self._clients.end
        if offset < start and not skip_trimmed:
            data = {"start": start, "given": offset}
            raise OffsetTrimmed(
                f"stream '{self.name}': offset {offset} was trimmed; the first offset kept is {start}", data
            )
        if offset > end and not may_be_ahead:
            data = {"end": end, "given": offset}
            raise OffsetAhead(
                f"stream '{self.name}': offset {offset} lies beyond the end {end}: this is not the queue that was read "
                "before",
                data,
            )
        begin = self._clients.beginning(offset)
        if begin is None:
            data = {"start": start, "given": offset}
            raise TrimNoteMissing(
                f"stream '{self.name}': offsets {offset} to {start} were trimmed, and their note is not known yet",
                data,
            )
        return begin

    def _select(self, first: int, max_tuples: int, max_bytes: int) -> ReadResult:
        store, clients = self._store, self._clients
        pieces, at = select(store, first, max_tuples, max_bytes)
        return ReadResult(
            self.schema,
            first,
            at,
            pieces,
            store.progress_at(store.find(at)),
            clients.start,
            clients.end,
            clients.note or "",
        )

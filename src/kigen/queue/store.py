"""Where the blocks of one queue lie: the newest in memory, all (durable) or the older ones (spilled) in segment files.

Durable: every block is in the file before anybody sees it, and memory is a cache of the newest. Not durable: blocks lie
in memory, and the oldest are written out when memory is full; files of an earlier run are removed. Without a folder
nothing is written at all.

Invariant: `blocks` ascend by offset without gaps; those with `data` are its last ones, and their bytes are at most
`memory_bytes` (but for one unit). A segment is deleted once all its tuples are trimmed and another follows. Not
thread-safe: the queue locks. Cost: O(log blocks) to find an offset; appending costs one write, and one fdatasync when
asked.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.durable import sync_directory
from kigen.queue.errors import StorageFailed
from kigen.queue.payload import Encoded
from kigen.queue.record import NO_PROGRESS, STATE, Record, checksum
from kigen.queue.segment import Segment
from kigen.queue.settings import QueueSettings

State = dict[str, Any]


@dataclass(slots=True)
class StoredBlock:
    """One block. `progress_us` is what the queue promised at its end."""

    record: Record
    progress_us: int
    data: Any = None  # the payload, if in memory
    segment: Segment | None = None
    position: int = 0

    def payload(self) -> Any:
        """Needs no lock: data is looked at once, and a segment stays readable while it is held."""
        data, segment = self.data, self.segment
        if data is not None:
            return data
        assert segment is not None
        return segment.payload(self.position, self.record.length, self.record.crc)


class Store:
    def __init__(self, folder: Path | None, settings: QueueSettings, state: Callable[[bool], State]) -> None:
        self._folder, self._durable = folder, settings.durable
        self._memory_bytes, self._segment_bytes = settings.memory_bytes, settings.segment_bytes
        self._syncs = settings.durable and settings.fsync != "never"
        self._state = state  # what to write; True: the head of a segment, complete
        self.blocks: list[StoredBlock] = []
        self._ends: list[int] = []  # of blocks, for searching
        self._cached: deque[StoredBlock] = deque()
        self.segments: list[Segment] = []
        self.kept_bytes = self.memory_used = 0
        self.progress_before = NO_PROGRESS  # what was promised before the first block kept
        self._broken: StorageFailed | None = None

    def restore(self, blocks: Sequence[StoredBlock], segments: list[Segment]) -> None:
        self.segments = segments
        for kept in blocks:
            self._add(kept)
        for segment in segments:
            segment.syncs = (segment.syncs or 1) if self._syncs else 0
        if (
            self._syncs
        ):  # what a kill left with the operating system is visible from now on, so it must outlive a power cut, too
            for segment in segments:
                self._checked(segment.sync)
            assert self._folder is not None
            sync_directory(self._folder)

    def append(self, records: Sequence[tuple[Record, Encoded]], progress_us: Sequence[int], sync: bool) -> None:
        """Adds one unit, whole or not at all; `progress_us` a block: what the queue promises behind it."""
        blocks = [StoredBlock(r, p, e.data) for (r, e), p in zip(records, progress_us, strict=True)]
        self._evict(sum(r.length for r, _ in records))
        if self._durable:
            active = self._active()
            positions = active.append([(r, e.data) for r, e in records])
            active.end = records[-1][0].end
            if sync:
                self.sync()
            for kept, position in zip(blocks, positions, strict=True):
                kept.segment, kept.position = active, position
        for kept in blocks:
            self._add(kept)
            self._cached.append(kept)
            self.memory_used += kept.record.length

    def write_state(self, sync: bool) -> None:
        if not self._durable:
            return
        self._active().append([state_record(self._state(False))])
        if sync:
            self.sync()

    def progressed(self, progress_us: int) -> None:
        """The queue promises more, with no tuple added."""
        if self.blocks:
            self.blocks[-1].progress_us = progress_us
        else:
            self.progress_before = progress_us

    def find(self, offset: int) -> int:
        """The index of the block that holds `offset`, or of the first behind it."""
        return bisect_right(self._ends, offset)

    def progress_at(self, index: int) -> int:
        """What is promised to a reader who has every block before `index`."""
        return self.blocks[index - 1].progress_us if index else self.progress_before

    def trim(self, start: int) -> None:
        gone = bisect_right(self._ends, start)
        if gone:
            self.progress_before = self.blocks[gone - 1].progress_us
            self.kept_bytes -= sum(k.record.length for k in self.blocks[:gone])
            del self.blocks[:gone], self._ends[:gone]
        while self._cached and self._cached[0].record.end <= start:
            self.memory_used -= self._cached.popleft().record.length
        while len(self.segments) > 1 and self.segments[0].end <= start:
            if self._syncs and not self.segments[-1].synced:
                # what makes the deleted one dispensable stands at the head of the last: it must not vanish with it
                self.sync()
            self.segments.pop(0).delete()

    def sync(self) -> None:
        if self.segments:
            self._checked(self.segments[-1].sync)

    @property
    def disk_bytes(self) -> int:
        return sum(s.size for s in self.segments)

    def _add(self, kept: StoredBlock) -> None:
        self.blocks.append(kept)
        self._ends.append(kept.record.end)
        self.kept_bytes += kept.record.length

    def _evict(self, coming: int) -> None:
        """Makes room in memory first: if the disk refuses, nothing has changed."""
        while self._folder is not None and self._cached and self.memory_used + coming > self._memory_bytes:
            kept = self._cached[0]
            if not self._durable:
                active = self._active()
                (kept.position,) = active.append([(kept.record, kept.data)])
                kept.segment, active.end = active, kept.record.end
            self._cached.popleft()
            kept.data = None
            self.memory_used -= kept.record.length

    def _active(self) -> Segment:
        """The segment to write to; a new one, with the whole state at its head, when the last is long enough."""
        if self._broken is not None:
            raise self._broken
        assert self._folder is not None
        if self.segments and self.segments[-1].size < self._segment_bytes:
            return self.segments[-1]
        if self._syncs:
            self.sync()
        segment = Segment.create(self._folder, self.segments[-1].number + 1 if self.segments else 1, self._syncs)
        try:
            segment.append([state_record(self._state(True))])
        except StorageFailed:
            segment.delete()
            raise
        self.segments.append(segment)
        return segment

    def _checked(self, sync: Callable[[], None]) -> None:
        """After a failed sync nobody knows what the disk holds: no more is taken until the queue is opened again."""
        try:
            sync()
        except StorageFailed as error:
            self._broken = StorageFailed(f"{error}; the queue takes nothing more until it is opened again", error.data)
            raise self._broken from error


def state_record(state: State) -> tuple[Record, Any]:
    payload = pa.py_buffer(json.dumps(state).encode())
    return Record(STATE, payload.size, checksum(payload)), payload

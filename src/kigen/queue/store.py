"""Stores the blocks of one queue: the newest in memory, and all (durable) or the older ones (spilled) in segment files.

Durable: every block is in the file before anybody sees it, and memory is a cache of the newest blocks. Not durable:
blocks are in memory, and the oldest are written out when memory is full; files of an earlier run are removed. Without a
folder nothing is written.

Invariant: `blocks` ascend by offset without gaps. The blocks with `data` are the last ones, and their bytes are at most
`memory_bytes` (except for one unit). A segment is deleted when all its tuples are trimmed and another segment follows.
Not thread-safe: the queue holds the lock. Cost: O(log blocks) to find an offset; one write per append, and one
fdatasync if requested.
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
    """One block. `progress_us` is the watermark of the queue at the end of the block."""

    record: Record
    progress_us: int
    data: Any = None  # the payload, if in memory
    segment: Segment | None = None
    position: int = 0

    def payload(self) -> Any:
        """Returns the bytes of the block. Needs no lock: `data` is read once, and a segment stays readable while it is
        held.
        """
        data, segment = self.data, self.segment
        if data is not None:
            return data
        assert segment is not None
        return segment.payload(self.position, self.record.length, self.record.crc)


class Store:
    """Blocks and segments of one queue."""

    def __init__(self, folder: Path | None, settings: QueueSettings, state: Callable[[bool], State]) -> None:
        self._folder, self._durable = folder, settings.durable
        self._memory_bytes, self._segment_bytes = settings.memory_bytes, settings.segment_bytes
        self._syncs = settings.durable and settings.fsync != "never"
        self._state = state  # makes the state to write; True: the complete head of a segment
        self.blocks: list[StoredBlock] = []
        self._ends: list[int] = []  # end offset of each block, for binary search
        self._cached: deque[StoredBlock] = deque()
        self.segments: list[Segment] = []
        self.kept_bytes = self.memory_used = 0
        self.progress_before = NO_PROGRESS  # watermark before the first stored block
        self._broken: StorageFailed | None = None

    def restore(self, blocks: Sequence[StoredBlock], segments: list[Segment]) -> None:
        """Takes over the blocks and segments that a restart found."""
        self.segments = segments
        for block in blocks:
            self._add(block)
        for segment in segments:
            segment.syncs = (segment.syncs or 1) if self._syncs else 0
        # What a kill left in the operating system's cache becomes visible now, so it must survive a power cut, too.
        if self._syncs:
            for segment in segments:
                self._checked(segment.sync)
            assert self._folder is not None
            sync_directory(self._folder)

    def append(self, records: Sequence[tuple[Record, Encoded]], progress_us: Sequence[int], sync: bool) -> None:
        """Adds one unit, completely or not at all. `progress_us`: the watermark of the queue after each block."""
        blocks = [StoredBlock(r, p, e.data) for (r, e), p in zip(records, progress_us, strict=True)]
        self._evict(sum(r.length for r, _ in records))
        if self._durable:
            active = self._active()
            positions = active.append([(r, e.data) for r, e in records])
            active.end = records[-1][0].end
            if sync:
                self.sync()
            for block, position in zip(blocks, positions, strict=True):
                block.segment, block.position = active, position
        for block in blocks:
            self._add(block)
            self._cached.append(block)
            self.memory_used += block.record.length

    def write_state(self, sync: bool) -> None:
        """Appends the current state to the log of a durable queue."""
        if not self._durable:
            return
        self._active().append([state_record(self._state(False))])
        if sync:
            self.sync()

    def progressed(self, progress_us: int) -> None:
        """Raises the watermark without adding a tuple."""
        if self.blocks:
            self.blocks[-1].progress_us = progress_us
        else:
            self.progress_before = progress_us

    def find(self, offset: int) -> int:
        """Returns the index of the block that holds `offset`, or of the first block after it."""
        return bisect_right(self._ends, offset)

    def progress_at(self, index: int) -> int:
        """Returns the watermark for a reader that has every block before `index`."""
        return self.blocks[index - 1].progress_us if index else self.progress_before

    def trim(self, start: int) -> None:
        """Removes the blocks below `start`, and the segments that hold no other blocks."""
        gone = bisect_right(self._ends, start)
        if gone:
            self.progress_before = self.blocks[gone - 1].progress_us
            self.kept_bytes -= sum(k.record.length for k in self.blocks[:gone])
            del self.blocks[:gone], self._ends[:gone]
        while self._cached and self._cached[0].record.end <= start:
            self.memory_used -= self._cached.popleft().record.length
        while len(self.segments) > 1 and self.segments[0].end <= start:
            if self._syncs and not self.segments[-1].synced:
                # The state at the head of the last segment replaces the deleted one, so it must be on the disk first.
                self.sync()
            self.segments.pop(0).delete()

    def sync(self) -> None:
        """Syncs the segment that is written to."""
        if self.segments:
            self._checked(self.segments[-1].sync)

    @property
    def disk_bytes(self) -> int:
        return sum(s.size for s in self.segments)

    def _add(self, block: StoredBlock) -> None:
        self.blocks.append(block)
        self._ends.append(block.record.end)
        self.kept_bytes += block.record.length

    def _evict(self, coming: int) -> None:
        """Makes room in memory before an append. If the disk refuses, nothing has changed."""
        while self._folder is not None and self._cached and self.memory_used + coming > self._memory_bytes:
            block = self._cached[0]
            if not self._durable:
                active = self._active()
                (block.position,) = active.append([(block.record, block.data)])
                block.segment, active.end = active, block.record.end
            self._cached.popleft()
            block.data = None
            self.memory_used -= block.record.length

    def _active(self) -> Segment:
        """Returns the segment to write to. Starts a new one, with the complete state at its head, when the last is
        full.
        """
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
        """Syncs. After a failure the content of the disk is unknown, so the store accepts nothing until it is
        reopened.
        """
        try:
            sync()
        except StorageFailed as error:
            self._broken = StorageFailed(
                f"{error}; the queue accepts no more tuples until it is opened again", error.data
            )
            raise self._broken from error


def state_record(state: State) -> tuple[Record, Any]:
    """Encodes a state as a record and its payload."""
    payload = pa.py_buffer(json.dumps(state).encode())
    return Record(STATE, payload.size, checksum(payload)), payload

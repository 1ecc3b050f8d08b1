"""A queue as simple as possible: a list of tuples and a dictionary of acks. Slow and obvious; judges the real one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from kigen.links import Security
from kigen.queue import NO_PROGRESS

SECURITY = Security(token="the secret of these tests")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batch(ids: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([f"t{i}" * (i % 5) for i in ids], pa.string())], schema=SCHEMA
    )


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    found = [i for b in batches for i in b.column(0).to_pylist()]
    assert [t for b in batches for t in b.column(1).to_pylist()] == [f"t{i}" * (i % 5) for i in found]
    return found


@dataclass
class ReferenceQueue:
    tuples: list[int] = field(default_factory=list)  # all tuples ever; the index is the offset
    promised: list[int] = field(default_factory=list)  # watermark when the queue had this length
    acks: dict[str, int] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    start: int = 0
    progress: int = NO_PROGRESS
    progress_at: dict[int, int] = field(default_factory=dict)  # end -> watermark at that end

    def append(self, new: list[int], sequence: int, progress: int | None) -> None:
        old = len(self.tuples) - sequence
        assert old >= 0
        self.tuples += new[old:]
        self.promise(progress)

    def promise(self, progress: int | None) -> None:
        self.progress = max(self.progress, NO_PROGRESS if progress is None else progress)
        self.progress_at[len(self.tuples)] = self.progress

    def ack(self, reader: str, offset: int) -> None:
        self.acks[reader] = max(self.acks[reader], offset)
        self.trim()

    def trim(self) -> None:
        if self.required:
            self.start = max(self.start, min(len(self.tuples), *(self.acks[r] for r in self.required)))

    def read(self, offset: int, most: int) -> list[int]:
        assert offset >= self.start
        return self.tuples[offset : offset + most]

    def best_progress(self, offset: int) -> int:
        """Returns the highest watermark that is valid for a reader that has all tuples before `offset`."""
        return max((p for end, p in self.progress_at.items() if end <= offset), default=NO_PROGRESS)

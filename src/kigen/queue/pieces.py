"""Result of a read: slices of blocks, which are neither copied nor decoded before somebody asks for them.

Invariant: `progress_us` is the watermark for a reader that has all tuples before `next`: no older tuple will come at or
after `next`. `packed` passes large blocks on unchanged and joins small neighbours into one block, so that a thousand
appends of one tuple travel, and compress, as one block. Cost: nothing for a block that is passed on unchanged; one
decode and one encode for blocks that are cut or joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kigen.queue.payload import PLAIN, Encoded, cut, decode, encode, join
from kigen.queue.record import TUPLES, Record
from kigen.queue.store import Store, StoredBlock

SMALL = 16 * 1024  # bytes; smaller blocks are joined with their neighbours


@dataclass(frozen=True, slots=True)
class BlockSlice:
    """Tuples [start, stop) of a stored block."""

    block: StoredBlock
    start: int  # counted within the block
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        """Whether the slice holds all tuples of the block."""
        return self.count == self.block.record.count

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Decodes the tuples of the slice."""
        return cut(
            decode(self.block.payload(), self.block.record.codec, schema, self.block.record.count),
            self.start,
            self.stop,
        )


@dataclass(frozen=True)
class ReadResult:
    """Tuples [first, next) of a queue, with the watermark that holds after them."""

    schema: pa.Schema
    first: int  # offset of the first tuple: the requested one, unless a trimmed range was skipped
    next: int  # offset at which the next read continues
    pieces: list[BlockSlice]
    progress_us: int
    start: int  # first offset that the queue kept at the time of the read
    end: int  # next offset of the queue at the time of the read
    note: str  # note of the ack that moved `start`

    @property
    def count(self) -> int:
        return self.next - self.first

    def batches(self) -> list[pa.RecordBatch]:
        """Decodes the result, one batch per slice."""
        return [piece.batch(self.schema) for piece in self.pieces]

    def batch(self) -> pa.RecordBatch:
        """Decodes the result as one batch."""
        return (
            join(self.batches())
            if self.pieces
            else pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in self.schema], schema=self.schema)
        )

    def packed(self, codec: int = PLAIN) -> Iterator[tuple[Record, Encoded]]:
        """Yields the slices as messages. Each record carries the watermark that holds after it."""
        at = self.first
        for run in self._runs(codec):
            count = sum(p.count for p in run)
            last = run[-1]
            done = at + count == self.next
            # After a block that was cut short, only the watermark from before the block holds: the one of this result.
            progress_us = self.progress_us if done or last.stop < last.block.record.count else last.block.progress_us
            encoded = _message(run, codec, self.schema)
            yield (
                Record(TUPLES, encoded.data.size, encoded.crc, False, encoded.codec, at, count, 0, 0, 0, progress_us),
                encoded,
            )
            at += count

    def _runs(self, codec: int) -> Iterator[list[BlockSlice]]:
        run: list[BlockSlice] = []
        size = 0
        for piece in self.pieces:
            if run and (size >= SMALL or _passes_unchanged(piece, codec)):
                yield run
                run, size = [], 0
            run.append(piece)
            size += piece.block.record.length * piece.count // max(piece.block.record.count, 1)
        if run:
            yield run


def _passes_unchanged(piece: BlockSlice, codec: int) -> bool:
    record = piece.block.record
    return piece.whole and record.length >= SMALL and (codec == PLAIN or record.codec != PLAIN)


def _message(run: list[BlockSlice], codec: int, schema: pa.Schema) -> Encoded:
    record = run[0].block.record
    if len(run) == 1 and run[0].whole and (codec == PLAIN or record.codec != PLAIN):
        data = run[0].block.payload()
        return Encoded(data, record.codec, record.count, record.length, record.crc)
    batch = join([p.batch(schema) for p in run])
    return encode(batch, codec)


def select(store: Store, first: int, max_tuples: int, max_bytes: int) -> tuple[list[BlockSlice], int]:
    """Returns the slices from offset `first` on, within both bounds but at least one tuple, and the offset after
    them.
    """
    index, at = store.find(first), first
    pieces: list[BlockSlice] = []
    while index < len(store.blocks) and max_tuples > 0 and max_bytes > 0:
        block = store.blocks[index]
        begin = at - block.record.first
        stop = min(block.record.count, begin + max_tuples)
        size = block.record.length * (stop - begin) // block.record.count
        if size > max_bytes:
            if pieces:
                break
            stop = begin + max(1, (stop - begin) * max_bytes // size)
        pieces.append(BlockSlice(block, begin, stop))
        max_tuples, max_bytes, at = max_tuples - (stop - begin), max_bytes - size, block.record.first + stop
        if stop < block.record.count:
            break
        index += 1
    return pieces, at

"""What a read gives: pieces of blocks, not copied and not decoded until somebody asks.

Invariant: `progress_us` holds for a reader who has all tuples before `next`: nothing older will come at or after it.
`packed` sends large blocks on as they are and joins small neighbours into one, so that a thousand appends of one tuple
travel, and compress, as one block. Cost: nothing a block that goes on as it is; a decode and an encode for what is cut
or joined.
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
    kept: StoredBlock
    start: int  # tuples of the block
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        return self.count == self.kept.record.count

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        return cut(
            decode(self.kept.payload(), self.kept.record.codec, schema, self.kept.record.count), self.start, self.stop
        )


@dataclass(frozen=True)
class ReadResult:
    schema: pa.Schema
    first: int  # offset of the first tuple; where the read was asked for, unless what was trimmed was skipped
    next: int  # offset to read on from
    pieces: list[BlockSlice]
    progress_us: int
    start: int  # of the queue, at the time of reading
    end: int
    note: str  # of the ack that moved `start`

    @property
    def count(self) -> int:
        return self.next - self.first

    def batches(self) -> list[pa.RecordBatch]:
        return [piece.batch(self.schema) for piece in self.pieces]

    def batch(self) -> pa.RecordBatch:
        """All as one batch."""
        return (
            join(self.batches())
            if self.pieces
            else pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in self.schema], schema=self.schema)
        )

    def packed(self, codec: int = PLAIN) -> Iterator[tuple[Record, Encoded]]:
        """The pieces as messages. Each carries the progress that holds behind it."""
        at = self.first
        for run in self._runs(codec):
            count = sum(p.count for p in run)
            last = run[-1]
            done = at + count == self.next
            # behind a block that was cut short only what held before it is promised: that is the progress of the whole
            # reading
            progress_us = self.progress_us if done or last.stop < last.kept.record.count else last.kept.progress_us
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
            if run and (size >= SMALL or _as_it_is(piece, codec)):
                yield run
                run, size = [], 0
            run.append(piece)
            size += piece.kept.record.length * piece.count // max(piece.kept.record.count, 1)
        if run:
            yield run


def _as_it_is(piece: BlockSlice, codec: int) -> bool:
    record = piece.kept.record
    return piece.whole and record.length >= SMALL and (codec == PLAIN or record.codec != PLAIN)


def _message(run: list[BlockSlice], codec: int, schema: pa.Schema) -> Encoded:
    record = run[0].kept.record
    if len(run) == 1 and run[0].whole and (codec == PLAIN or record.codec != PLAIN):
        data = run[0].kept.payload()
        return Encoded(data, record.codec, record.count, record.length, record.crc)
    batch = join([p.batch(schema) for p in run])
    return encode(batch, codec)


def select(store: Store, first: int, max_tuples: int, max_bytes: int) -> tuple[list[BlockSlice], int]:
    """Pieces from offset `first` on, within both bounds but at least one tuple; and the offset behind them."""
    index, at = store.find(first), first
    pieces: list[BlockSlice] = []
    while index < len(store.blocks) and max_tuples > 0 and max_bytes > 0:
        kept = store.blocks[index]
        begin = at - kept.record.first
        stop = min(kept.record.count, begin + max_tuples)
        size = kept.record.length * (stop - begin) // kept.record.count
        if size > max_bytes:
            if pieces:
                break
            stop = begin + max(1, (stop - begin) * max_bytes // size)
        pieces.append(BlockSlice(kept, begin, stop))
        max_tuples, max_bytes, at = max_tuples - (stop - begin), max_bytes - size, kept.record.first + stop
        if stop < kept.record.count:
            break
        index += 1
    return pieces, at

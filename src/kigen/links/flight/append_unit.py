"""Encodes one unit of an append as the messages that carry it.

A unit without tuples is one message that only carries the watermark. The unit keeps its messages, so that a writer can
send them again after a failure. Cost: one copy of each block into its message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from kigen.links.flight.calls import message
from kigen.queue.payload import encode_all
from kigen.queue.record import NO_PROGRESS, TUPLES, Record


@dataclass(frozen=True)
class AppendUnit:
    """One unit, ready to send."""

    sequence: int
    after: int  # the next sequence number, once the unit is in the queue
    messages: list[bytes]
    blocks: list[tuple[int, int, int]]  # per block: tuples, bytes, bytes before compression

    @property
    def size(self) -> int:
        """Bytes of all messages."""
        return sum(len(message) for message in self.messages)

    @property
    def tuples(self) -> int:
        """Tuples of all blocks."""
        return sum(count for count, _, _ in self.blocks)


def encode_unit(
    batches: Sequence[pa.RecordBatch], at: int, epoch: int, counts: str, codec: int, progress_us: int | None
) -> AppendUnit:
    """Encodes a unit whose first sequence number is `at`. Only its last record carries the watermark."""
    watermark_us = NO_PROGRESS if progress_us is None else progress_us
    blocks = [block for batch in batches for block in encode_all(batch, codec)]
    messages, sequence = [], at
    for place, e in enumerate(blocks):
        more = place < len(blocks) - 1
        behind = NO_PROGRESS if more else watermark_us
        record = Record(TUPLES, e.data.size, e.crc, more, e.codec, 0, e.count, 0, epoch, sequence, behind)
        messages.append(message(record, e.data))
        sequence += e.count if counts == "tuples" else 0
    if not blocks:
        messages.append(message(Record(TUPLES, 0, 0, sequence=at, progress_us=watermark_us), b""))
    after = sequence if counts == "tuples" else at + 1
    return AppendUnit(at, after, messages, [(e.count, e.data.size, e.plain) for e in blocks])

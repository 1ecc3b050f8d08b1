"""A record: what stands in a segment file and travels in one message. 64 bytes of head, then the payload.

    0 magic "KGQ1"   4 kind   5 more   6 codec   7 syncs    8 payload length   16 first offset   24 tuples   28
    producer's number
    32 epoch   40 sequence   48 progress, us   56 CRC-32 of the payload   60 CRC-32 of bytes 0..59       (little-endian)

Kinds: STATE (payload: JSON, who produced and acknowledged what) and TUPLES (payload: one Arrow IPC record batch
message, without its schema). In a file, payloads are padded to 64 bytes, so that a record begins at a multiple of 64
and Arrow reads aligned memory.

Invariant: a record whose two checksums agree was written whole. `more` says that the next record belongs to the same
unit, which is kept whole or not at all. Cost: one pass over the payload for its checksum (about 1 GB/s, without the
interpreter's lock).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from kigen.queue.errors import BadRequest

STATE, TUPLES = 1, 2
SIZE = 64
NO_PROGRESS = -(2**63)  # nothing promised yet
ENDED = 2**63 - 1  # progress of a stream that holds nothing more
LONGEST = 2**31 - 1  # bytes of a payload in a file
LONGEST_SENT = 256 << 20  # bytes of a payload that travels, and of what it unpacks to
MAGIC = b"KGQ1"
_HEAD = struct.Struct("<4sBBBBqqiiqqqI")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Record:
    kind: int
    length: int
    crc: int
    more: bool = False
    codec: int = 0
    first: int = 0
    count: int = 0
    producer: int = 0
    epoch: int = 0
    sequence: int = 0
    progress_us: int = NO_PROGRESS

    def pack(self, syncs: int = 0) -> bytes:
        """`syncs`: of the file it is written to (kigen.queue.segment)."""
        head = _HEAD.pack(
            MAGIC,
            self.kind,
            self.more,
            self.codec,
            syncs,
            self.length,
            self.first,
            self.count,
            self.producer,
            self.epoch,
            self.sequence,
            self.progress_us,
            self.crc,
        )
        return head + _CRC.pack(zlib.crc32(head))

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def padded(self) -> int:
        """Bytes in a file, head and padding included."""
        return SIZE + self.length + padding(self.length)


def unpack(head: Any) -> Record | None:
    """The record of these 64 bytes, or None if they are not a whole head."""
    head = bytes(head)
    if len(head) != SIZE or head[:4] != MAGIC or _CRC.unpack_from(head, SIZE - 4)[0] != zlib.crc32(head[: SIZE - 4]):
        return None
    _, kind, more, codec, _, length, first, count, producer, epoch, sequence, progress_us, crc = _HEAD.unpack_from(head)
    if kind not in (STATE, TUPLES) or not 0 <= length <= LONGEST or count < 0:
        return None
    return Record(kind, length, crc, bool(more), codec, first, count, producer, epoch, sequence, progress_us)


def syncs_of(head: Any) -> int:
    """How often the file had been synced when this whole head was written; 0: it never is."""
    return int(bytes(head)[7])


def from_message(message: Any) -> tuple[Record, Any]:
    """Record and payload (a slice, not a copy) of a message that came over a link; checked."""
    if message is not None and len(message) > SIZE + LONGEST_SENT:
        raise BadRequest(f"a message of {len(message):,} bytes: at most {LONGEST_SENT:,} are allowed")
    record = unpack(message[:SIZE]) if message is not None and len(message) >= SIZE else None
    if record is None or SIZE + record.length != len(message):
        raise BadRequest("a message that is no record: both sides must run the same version of Kigen")
    payload = message[SIZE:]
    if checksum(payload) != record.crc:
        raise BadRequest("a record was damaged on the way: its checksum differs")
    return record, payload


def checksum(payload: Any) -> int:
    return zlib.crc32(payload)


def padding(length: int) -> int:
    return -length % SIZE

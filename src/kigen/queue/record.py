"""Record: the unit that a segment file stores and a message carries. A head of 64 bytes, then the payload.

    0 magic "KGQ1"   4 kind   5 more   6 codec   7 syncs   8 payload length   16 first offset   24 tuples
    28 number of the producer   32 epoch   40 sequence   48 watermark (`progress_us`)
    56 CRC-32 of the payload    60 CRC-32 of bytes 0..59          (little-endian)

There are two kinds. STATE: the payload is JSON and says who produced and acknowledged what. TUPLES: the payload is one
Arrow IPC record batch message without its schema. In a file, payloads are padded to 64 bytes, so that each record
begins at a multiple of 64 and Arrow reads aligned memory.

Invariant: a record whose two checksums match was written completely. `more` says that the next record belongs to the
same unit, and a unit is kept completely or not at all. Cost: one pass over the payload for its checksum (about 1 GB/s,
without the interpreter's lock).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from kigen.queue.errors import BadRequest

STATE, TUPLES = 1, 2
SIZE = 64
NO_PROGRESS = -(2**63)  # there is no watermark yet
ENDED = 2**63 - 1  # watermark of a stream that has ended
LONGEST = 2**31 - 1  # bytes of a payload in a file
LONGEST_SENT = 256 << 20  # bytes of a payload in a message, before and after decompression
MAGIC = b"KGQ1"
_HEAD = struct.Struct("<4sBBBBqqiiqqqI")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Record:
    """Head of a record."""

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
        """Returns the head as bytes. `syncs` is the sync count of the file it is written to (`kigen.queue.segment`)."""
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
        """Offset after the last tuple."""
        return self.first + self.count

    @property
    def padded(self) -> int:
        """Bytes in a file, head and padding included."""
        return SIZE + self.length + padding(self.length)


def unpack(head: Any) -> Record | None:
    """Returns the record of these 64 bytes, or None if they are not a complete head."""
    head = bytes(head)
    if len(head) != SIZE or head[:4] != MAGIC or _CRC.unpack_from(head, SIZE - 4)[0] != zlib.crc32(head[: SIZE - 4]):
        return None
    _, kind, more, codec, _, length, first, count, producer, epoch, sequence, progress_us, crc = _HEAD.unpack_from(head)
    if kind not in (STATE, TUPLES) or not 0 <= length <= LONGEST or count < 0:
        return None
    return Record(kind, length, crc, bool(more), codec, first, count, producer, epoch, sequence, progress_us)


def syncs_of(head: Any) -> int:
    """Returns the sync count of the file when this head was written, 0 if the file is never synced."""
    return int(bytes(head)[7])


def from_message(message: Any) -> tuple[Record, Any]:
    """Returns the record and the payload (a slice, not a copy) of a message from a link, after checking both."""
    if message is not None and len(message) > SIZE + LONGEST_SENT:
        raise BadRequest(f"the message has {len(message):,} bytes: at most {LONGEST_SENT:,} are allowed")
    record = unpack(message[:SIZE]) if message is not None and len(message) >= SIZE else None
    if record is None or SIZE + record.length != len(message):
        raise BadRequest("the message is not a record: both sides must run the same version of Kigen")
    payload = message[SIZE:]
    if checksum(payload) != record.crc:
        raise BadRequest("the record was damaged in transit: its checksum differs")
    return record, payload


def checksum(payload: Any) -> int:
    return zlib.crc32(payload)


def padding(length: int) -> int:
    return -length % SIZE

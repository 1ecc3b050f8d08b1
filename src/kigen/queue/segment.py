"""Segment: an append-only file of records. Its first record is a STATE that replaces all earlier segments.

Invariant: `size` is the end of the last complete unit; a write that fails is cut off before anybody can see it. Bytes
below `synced` survive a power cut. Each record carries the sync count of its segment at the time of writing (1, 2 ...
255, 1 ...; 0 in queues that never sync). With it, a restart distinguishes a tail that a power cut tore from damage to
data that was on the disk (`kigen.queue.recover`).

Cost: one gathering write per unit, one positioned read per block. Readers share the file with the writer and need no
lock. A deleted segment stays readable while somebody holds it: the file closes with the last reference.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.durable import disk, remove, sync_directory
from kigen.queue.errors import CorruptLog, StorageFailed
from kigen.queue.record import Record, checksum, padding

_SUFFIX = ".log"
_MOST_PARTS = 512  # per gathering write (the system allows 1024)


class Segment:
    """One segment file, opened for reading and appending."""

    def __init__(self, path: Path, number: int, create: bool = False) -> None:
        self.path, self.number = path, number
        self._fd = -1
        try:
            self._fd = disk().open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
        except OSError as error:
            raise _failed(path, error) from error
        self.size = os.fstat(self._fd).st_size
        self.end = -1  # offset after its last tuple; -1: no tuples
        self.synced = 0  # bytes that survive a power cut, as far as this process knows
        self.syncs = 0  # sync count for the next record; 0: this queue never syncs

    @staticmethod
    def create(folder: Path, number: int, sync: bool) -> Segment:
        """Creates a new, empty segment file. `sync`: the queue syncs, so the folder entry is synced, too."""
        segment = Segment(folder / f"{number:010d}{_SUFFIX}", number, create=True)
        if sync:
            segment.syncs = 1
            try:
                sync_directory(folder)
            except OSError as error:
                segment.delete()
                raise _failed(segment.path, error) from error
        return segment

    @staticmethod
    def existing(folder: Path) -> list[tuple[int, Path]]:
        """Returns the numbers and paths of the segments in a folder, in order."""
        return sorted((int(path.stem), path) for path in folder.glob(f"[0-9]*{_SUFFIX}"))

    def append(self, records: Sequence[tuple[Record, Any]]) -> list[int]:
        """Writes records and payloads at the end, all or none. Returns the position of each payload."""
        parts: list[Any] = []
        positions: list[int] = []
        at = self.size
        for record, payload in records:
            head = record.pack(self.syncs)
            positions.append(at + len(head))
            parts += [head, payload, bytes(padding(record.length))]
            at += record.padded
        try:
            self._write(parts, at - self.size)
        except OSError as error:
            disk().truncate(self._fd, self.size)
            raise _failed(self.path, error) from error
        self.size = at
        return positions

    def _write(self, parts: list[Any], expected: int) -> None:
        at = self.size
        views = [v for v in (memoryview(p).cast("B") for p in parts) if len(v)]
        while views:
            written = disk().write_at(self._fd, views[:_MOST_PARTS], at)
            at += written
            while views and written >= len(views[0]):
                written -= len(views[0])
                views.pop(0)
            if written:
                views[0] = views[0][written:]
        if at - self.size != expected:
            raise OSError(errno.EIO, "a short write")

    def read(self, position: int, length: int) -> bytes:
        """Reads bytes at a position."""
        return os.pread(self._fd, length, position)

    def payload(self, position: int, length: int, crc: int) -> Any:
        """Reads a payload into aligned memory and verifies its checksum."""
        buffer = pa.allocate_buffer(length)
        view = memoryview(buffer).cast("B")
        done = 0
        while done < length:
            got = os.preadv(self._fd, [view[done:]], position + done)
            if got == 0:
                break
            done += got
        if done < length or checksum(buffer) != crc:
            place = {"file": str(self.path), "position": position}
            raise CorruptLog(
                f"{self.path}: the block at byte {position} does not match its checksum: it was damaged on the disk",
                place,
            )
        return buffer

    def cut(self, size: int) -> None:
        """Truncates the file and syncs it."""
        disk().truncate(self._fd, size)
        disk().sync(self._fd)
        self.size = size

    def sync(self) -> None:
        """Syncs what was written since the last sync."""
        if self.synced == self.size:
            return
        try:
            disk().sync(self._fd)
        except OSError as error:
            raise _failed(self.path, error) from error
        self.synced = self.size
        self.syncs = self.syncs % 255 + 1

    def delete(self) -> None:
        remove(self.path)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _failed(path: Path, error: OSError) -> StorageFailed:
    hint = ": free some space; the producer tries again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return StorageFailed(f"{path}: {error.strerror}{hint}", {"errno": error.errno})

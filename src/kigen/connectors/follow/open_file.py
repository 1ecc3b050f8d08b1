"""Reads a followed file through one descriptor, so that size, identity and bytes are those of the same file even while
it is renamed or replaced."""

from __future__ import annotations

import os
import zlib
from types import TracebackType

from kigen.connectors.follow.file_identity import HEAD_BYTES, FileId


class OpenFile:
    """A file that is open for reading. Raises OSError if it is not there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        self.inode, self.size, self.mtime_ns = found.st_ino, found.st_size, found.st_mtime_ns

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    def read(self, start: int, length: int) -> bytes:
        """Returns the bytes from `start`, fewer at the end of the file."""
        parts: list[bytes] = []
        while length > 0:
            data = os.pread(self._fd, length, start)
            if not data:
                break
            parts.append(data)
            start, length = start + len(data), length - len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def identity(self, name: str, born: int, read: int) -> FileId:
        """Returns the identity of the file, of which `read` bytes are known."""
        head = self.read(0, min(read, HEAD_BYTES))
        return FileId(name, born, self.inode, len(head), zlib.crc32(head))

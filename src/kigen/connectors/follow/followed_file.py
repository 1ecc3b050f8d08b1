"""A file that is being followed: how far it was read, where it is now, and whether it is still the same file."""

from __future__ import annotations

from dataclasses import dataclass

from kigen.connectors.follow.file_identity import HEAD_BYTES, FileId, locate, located, stat_of
from kigen.connectors.follow.found_records import Found, RecordFinder
from kigen.connectors.follow.open_file import OpenFile
from kigen.connectors.follow.visits import Place

LOOK_AGAIN_US = 200_000  # how often a file that is gone is looked for


@dataclass
class FollowedFile:
    """`read` is how far its records were found; `size` and `mtime_ns` are what it had when it was last searched."""

    id: FileId
    read: Place
    path: str  # where it was last
    has_records: bool = True
    size: int = -1  # -1: it must be searched
    mtime_ns: int = -1
    changed_us: int = 0
    copy: int | None = None  # inode of the copy that stands in for it
    gone_us: int | None = None  # when it was last looked for in vain

    def needed_bytes(self, finder: RecordFinder) -> int:
        return finder.needed_bytes(self.read)

    def is_torn(self, finder: RecordFinder) -> bool:
        """Returns whether it has bytes after its last record."""
        return self.size > finder.needed_bytes(self.read) > 0

    def is_unchanged(self, size: int, mtime_ns: int) -> bool:
        return self.size == size and self.mtime_ns == mtime_ns

    def open(self, finder: RecordFinder, directory: str, now_us: int, must: Place | None = None) -> OpenFile | None:
        """Opens it wherever it is now. None if it is gone; raises InputError if it is needed up to `must`."""
        if self.gone_us is not None and now_us - self.gone_us < LOOK_AGAIN_US:
            return None
        least = finder.needed_bytes(must or self.read)
        for _ in range(3):  # it may be renamed at any moment
            opened = self._open_at(self.path, least)
            if opened is not None:
                self.gone_us = None
                return opened
            if must is not None:
                path: str | None = located(self.id, directory, least)
            else:
                path = locate(self.id, directory, least, copies=self.has_records)
            found = None if path is None else stat_of(path)
            if path is None or found is None:
                break
            self.path, self.copy = path, found.st_ino
        self.gone_us = now_us
        return None

    def _open_at(self, path: str, least: int) -> OpenFile | None:
        try:
            opened = OpenFile(path)
        except OSError:
            return None
        same = opened.inode in (self.id.inode, self.copy) and opened.size >= max(least, self.id.head)
        if same and (opened.inode != self.id.inode or opened.mtime_ns != self.mtime_ns):
            same = opened.identity(self.id.name, self.id.born, self.id.head).checksum == self.id.checksum
        if not same:
            opened.close()
        return opened if same else None

    def search(
        self, opened: OpenFile, finder: RecordFinder, now_us: int, limit: int | None = None, complete: bool = False
    ) -> Found:
        """Finds the next records, without moving on to their end."""
        if opened.size != self.size and self.size != -1:
            self.changed_us = now_us
        elif self.size == -1:
            self.changed_us = max(self.changed_us, opened.mtime_ns // 1000)
        self.size, self.mtime_ns = opened.size, opened.mtime_ns
        return finder.find(opened, self.read, limit, complete)

    def move_to(self, opened: OpenFile, finder: RecordFinder, found: Found) -> None:
        """Moves on behind records that were found."""
        self.read, self.has_records = found.end, True
        if self.id.head < HEAD_BYTES:
            self.id = opened.identity(self.id.name, self.id.born, finder.known_bytes(opened, found.end))
        if self.is_torn(finder):
            self.size = -1  # perhaps only a portion was searched

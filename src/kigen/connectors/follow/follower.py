"""Follows the files of a path: finds their new records and decides which file is next. No thread, no clock of its own.

Invariant: every complete record of every file gets one offset, once, and a restart gives it the same one
(kigen.connectors.follow.visits). A file is left when it has no complete record any more and another one has. A file
that grows later is visited again. A last line without a line end waits; it counts as a record only if its file did not
change for `SETTLED_US` and another file was begun since. Cost: see `listing` and `found_records`; while nothing
changes, two `stat`s, and a look at all that a path may hold every `LIST_US`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kigen.connectors.follow.file_identity import HEAD_BYTES, FileId, locate, located, stat_of
from kigen.connectors.follow.followed_file import FollowedFile
from kigen.connectors.follow.found_records import RecordFinder
from kigen.connectors.follow.listing import Listing
from kigen.connectors.follow.open_file import OpenFile
from kigen.connectors.follow.record_path import RecordPath, Stretch
from kigen.connectors.follow.visits import Left, Place, Visit, Visits
from kigen.connectors.source_base import Position
from kigen.connectors.text_files import SETTLED_S

SETTLED_US = int(SETTLED_S * 1e6)
LIST_US = 200_000  # how often a directory is listed, and files are looked at that were left
_Stamp = tuple[int, int, int] | None
_RECENT = 4  # files that the only file was before: they may still grow


class Follower:
    """Follows a path on from the recorded positions of all tasks, by offset; the least one counts.

    `may_miss`: goes on with the next file if the file of the position is gone; else that is an error.
    """

    def __init__(
        self,
        listing: Listing,
        finder: RecordFinder,
        visits: Visits,
        positions: Mapping[int, Position | None],
        may_miss: bool = False,
    ) -> None:
        self._listing, self._finder, self._visits = listing, finder, visits
        self._files: dict[int, FollowedFile] = {}  # by `born`
        self._inodes: dict[int, FollowedFile] = {}  # the newest file of each inode
        self._torn: dict[int, FollowedFile] = {}  # files that end with half a line
        self._number = -1  # of the current visit
        self._current: FollowedFile | None = None
        self._whole: FollowedFile | None = None  # whose last line is a record
        self._passed = _passed(positions)  # visit -> how far a task has read in it
        self._listed: list[tuple[str, os.stat_result]] = []  # files of a directory that are to be looked at
        self._listed_us: int | None = None
        self._still: list[_Stamp] = []  # what the path and the current file were when there was nothing to do
        self._looked_us = 0
        first = min(positions, default=0)
        at = positions.get(first)
        if at is None:
            assert first == 0, f"offset {first} needs a position"
            self.path = RecordPath(0)
        else:
            file = self._continue(at, may_miss)
            self.path = RecordPath(first, file.id, self._number, file.read)

    def _continue(self, at: Position, may_miss: bool) -> FollowedFile:
        """Continues at a recorded position: what was visited before it is read."""
        self._number = int(at["visit"])
        for number in range(self._number):
            visit = self._visits[number]
            assert visit.end is not None, "a visit ends where the next one begins"
            self._remember(FollowedFile(visit.file, visit.end, self._listing.full(visit.file.name)))
        end = self._visits[self._number].end
        identity = self._passed[self._number].file if end is None else self._visits[self._number].file
        file = FollowedFile(identity, Place(int(at["at"]), int(at["line"])), "")
        self._remember(file)
        self._current = file
        least = self._finder.needed_bytes(self._must() or file.read)
        if may_miss if end is None else end.at == file.read.at:
            file.path = locate(file.id, self._listing.directory, least) or self._listing.full(file.id.name)
        else:
            file.path = located(file.id, self._listing.directory, least)
        return file

    def _must(self) -> Place | None:
        """Returns how far the current visit goes for certain, because it has ended or a task has read so far."""
        end, passed = self._visits[self._number].end, self._passed.get(self._number)
        return end if end is not None or passed is None else passed.end

    def _remember(self, file: FollowedFile) -> None:
        self._files[file.id.born] = file
        self._inodes[file.id.inode] = file

    def poll(self, now_us: int) -> bool:
        """Takes one step; returns whether there may be more to do at once."""
        stamps = self._stamps()
        if stamps == self._still and not self._is_due(now_us):
            return False
        is_busy = self._read(now_us) or self._move_on(now_us)
        self._still, self._looked_us = [] if is_busy else stamps, now_us
        return is_busy

    def _is_due(self, now_us: int) -> bool:
        """Whether to look at all that the path may hold, or another reader has begun the next visit."""
        looked_us = self._looked_us if self._listed_us is None else self._listed_us
        return not 0 <= now_us - looked_us < LIST_US or self._visits.after(self._number) is not None

    def _stamps(self) -> list[_Stamp]:
        """Returns what tells whether the path or the current file has changed."""
        paths = [self._listing.path] if self._current is None else [self._listing.path, self._current.path]
        return [_stamp_of(path) for path in dict.fromkeys(paths)]

    # --- the current file ------------------------------------------------------------------------------------------

    def _read(self, now_us: int) -> bool:
        """Finds records in the current file; returns whether there were any."""
        file = self._current
        if file is None:
            return False
        end, must = self._visits[self._number].end, self._must()
        if end is not None and file.read.at >= end.at:
            return False
        ahead = must is not None and file.read.at < must.at
        opened = file.open(self._finder, self._listing.directory, now_us, must=must if ahead else None)
        if opened is None:
            return False
        with opened:
            complete = self._whole is file
            if end is None and not complete and opened.size == file.size:
                file.mtime_ns = opened.mtime_ns
                return False
            found = file.search(opened, self._finder, now_us, None if end is None else end.at, complete)
            if complete:
                self._whole = None
            if not found.rows:
                self._note_tail(file)
                return False
            if self._visits.reach(self._number, found.end.at) < found.end.at:
                file.size = -1  # another reader has ended the visit before
                return True
            start = file.read
            file.move_to(opened, self._finder, found)
            self._inodes[file.id.inode] = file
        self._note_tail(file)
        first = self.path.end
        self.path.add(Stretch(first, found.rows, now_us, self._number, file.id, start, found.ends, found.lines))
        return True

    def _note_tail(self, file: FollowedFile) -> None:
        if file.is_torn(self._finder):
            self._torn[file.id.born] = file
        else:
            self._torn.pop(file.id.born, None)

    # --- the next file ---------------------------------------------------------------------------------------------

    def _move_on(self, now_us: int) -> bool:
        """Begins the next visit; returns whether there is one."""
        visit = self._visits.after(self._number)
        if visit is None:
            file = self._next(now_us)
            if file is None or file is self._current:
                return file is not None
            left = None if self._current is None else Left(self._current.read, self._current.id)
            visit = self._visits.add(self._number, left, file.id, file.read)
            if visit is None:  # another reader is further in the current file
                assert self._current is not None
                self._current.size = -1
                return True
        self._begin(visit)
        return True

    def _begin(self, visit: Visit) -> None:
        known = self._files.get(visit.file.born)
        if known is None:
            passed = self._passed.get(visit.number)
            identity = visit.file if passed is None or visit.end is not None else passed.file
            known = FollowedFile(identity, visit.start, self._listing.full(visit.file.name), has_records=False)
            self._remember(known)
        known.size = -1
        self._number, self._current = visit.number, known

    def _next(self, now_us: int) -> FollowedFile | None:
        """Returns the file to visit next: one with new records, or a new file whose records begin."""
        found = self._next_of_many(now_us) if self._listing.single is None else self._next_of_single(now_us)
        return found or self._settled(now_us)

    def _next_of_many(self, now_us: int) -> FollowedFile | None:
        if not self._listed:
            if self._listed_us is not None and now_us - self._listed_us < LIST_US:
                return None
            self._listed, self._listed_us = self._listing.names()[::-1], now_us
        while self._listed:
            name, stat = self._listed.pop()
            known = self._inodes.get(stat.st_ino)
            renamed = known is not None and known.id.name != name
            if known is not None and renamed and known.mtime_ns not in (-1, stat.st_mtime_ns):
                known = None  # a new file that got the inode of a deleted one
            found = self._candidate(name, known, stat, now_us)
            if found is not None:
                return found
        return None

    def _next_of_single(self, now_us: int) -> FollowedFile | None:
        for born in sorted(self._files)[-_RECENT:]:
            before = self._files[born]
            if before is not self._current and self._has_grown(before, now_us):
                return before
        listed = self._listing.names()
        name, stat = listed[0] if listed else ("", None)
        known = None if stat is None else self._inodes.get(stat.st_ino)
        newest = self._files[max(self._files)] if self._files else None
        if newest is not None and (stat is None or known is not newest or not self._is_same(newest, name, stat)):
            found = self._rotated_unseen(newest, now_us)
            if found is not None:
                return found
        return None if stat is None else self._candidate(name, known, stat, now_us)

    def _rotated_unseen(self, newest: FollowedFile, now_us: int) -> FollowedFile | None:
        """Returns a file that was in place of the newest one and was renamed before anybody looked."""
        for name, stat in self._listing.rotated(newest.mtime_ns):
            known = self._inodes.get(stat.st_ino)
            if (known is not None and self._is_same(known, name, stat)) or self._is_copy(name, stat.st_size):
                continue
            found = self._candidate(name, None, stat, now_us)
            if found is not None:
                return found
        return None

    def _candidate(
        self, name: str, known: FollowedFile | None, stat: os.stat_result, now_us: int
    ) -> FollowedFile | None:
        """Returns the listed file if it has something to read. New files count once their records begin."""
        if known is not None and self._is_same(known, name, stat):
            return known if known is not self._current and self._has_grown(known, now_us) else None
        try:
            opened = OpenFile(self._listing.full(name))
        except OSError:
            return None
        with opened:
            start = self._finder.begin(opened)
            if start is None:
                return None
            born = max(self._files, default=-1) + 1
            identity = opened.identity(name, born, self._finder.known_bytes(opened, start))
            return FollowedFile(identity, start, opened.path)

    def _is_same(self, known: FollowedFile, name: str, stat: os.stat_result) -> bool:
        """Returns whether a listed file is a known one: it was not truncated and written anew."""
        if known.id.inode == stat.st_ino and known.is_unchanged(stat.st_size, stat.st_mtime_ns):
            return True
        path = self._listing.full(name)
        if not known.id.is_at(path, known.needed_bytes(self._finder)):
            return False
        known.path = path
        return True

    def _is_copy(self, name: str, size: int) -> bool:
        """Returns whether a new file is what `copytruncate` copied away of a known one."""
        recent = [self._files[born] for born in sorted(self._files)[-_RECENT:]]
        return any(
            file.id.head >= min(HEAD_BYTES, size)
            and file.id.is_copy(self._listing.full(name), file.needed_bytes(self._finder))
            for file in recent
        )

    def _has_grown(self, file: FollowedFile, now_us: int) -> bool:
        """Returns whether a file that was left has new records."""
        opened = file.open(self._finder, self._listing.directory, now_us)
        if opened is None:
            return False
        with opened:
            if opened.size == file.size or opened.size <= file.needed_bytes(self._finder):
                file.size, file.mtime_ns = opened.size, opened.mtime_ns
                return False
            if not file.needed_bytes(self._finder):  # parquet files do not grow
                file.size, file.mtime_ns = opened.size, opened.mtime_ns
                return False
            found = file.search(opened, self._finder, now_us)
        self._note_tail(file)
        return found.rows > 0

    def _settled(self, now_us: int) -> FollowedFile | None:
        """Returns a file whose last line has no line end and will get none: the line is a record."""
        newest = max(self._files, default=-1)
        for born, file in self._torn.items():
            if born < newest and now_us - file.changed_us > SETTLED_US:
                self._whole = file
                return file
        return None


def _stamp_of(path: str) -> _Stamp:
    """Returns inode, size and time of the last change of a file; None if there is none."""
    stat = stat_of(path)
    return None if stat is None else (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _passed(positions: Mapping[int, Position | None]) -> dict[int, Left]:
    """Returns how far tasks have read in each visit, and what is known of its file by then."""
    found: dict[int, Left] = {}
    for _, at in sorted(positions.items()):
        if at is not None:
            found[int(at["visit"])] = Left(Place(int(at["at"]), int(at["line"])), FileId.from_json(at["id"]))
    return found

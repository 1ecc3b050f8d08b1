"""Sink for the changes of one query that readers follow while the run goes on: a log of JSON lines in segment files.

An event is a line; its id is the number of bytes up to its end, so a reader continues from any id that is still kept.
Each segment has a snapshot of the relation at its start. A segment is removed when it is older than `keep_s` and
another one follows. Invariant: bytes up to a sink position never change, and the relation belongs to the last event
that readers can see. Threads: the sink's thread writes, any thread reads. Cost: one write per batch; the relation is
brought up to date when somebody asks for it, or when much has gathered.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from kigen.connectors.changes_log.relation import Relation
from kigen.connectors.json_messages import JsonMessages
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, make_directories, remove, replace, sync_directory
from kigen.plan.types import Schema

SEGMENT_BYTES = 16 << 20
_UNAPPLIED_BYTES = 4 << 20  # of lines that the relation lacks
_LINES, _SNAPSHOT = ".jsonl", ".relation"


class EventGone(LookupError):
    """The event is older than what is kept, or was never given."""


class ChangesLog(Sink):
    """Log of one query. `keep_s`: for how long a reader may be away and still continue."""

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        is_stream: bool,
        keep_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(schema, is_stream, changes=True)
        self._folder, self._keep_s, self._clock = folder, keep_s, clock
        self._messages = JsonMessages(schema, is_stream, changes=True)
        self._lock = threading.Lock()
        self._starts: list[int] = []  # first byte of each segment
        self._file: WrittenFile | None = None
        self._written = 0
        self.end = 0  # the last event that readers may see
        self.added_by = 0  # number of the change of the app that added the query
        self._relation, self._applied = Relation(), 0

    # --- the sink's thread -------------------------------------------------------------------------------------------

    def open(self, position: SinkPosition | None) -> None:
        make_directories(self._folder, self.syncs)
        keep = 0 if position is None else int(position["bytes"])
        starts = sorted(int(path.stem) for path in self._folder.glob(f"*{_LINES}"))
        kept = [start for start in starts if start <= keep] if position is not None else []
        for start in set(starts) - set(kept):
            self._remove(start)
        if not kept:
            if keep:
                raise InputError(
                    f"the checkpoint needs changes up to byte {keep}, and they are gone", str(self._folder)
                )
            self._begin(0)
            return
        self._starts, start = kept, kept[-1]
        path = self._path(start)
        if path.stat().st_size < keep - start:
            raise InputError(
                f"{keep - start} bytes required, found {path.stat().st_size}: put the file back", str(path)
            )
        self._file = WrittenFile(path, keep - start)
        self._written = self.end = keep
        self._relation, self._applied = Relation.from_bytes(self._snapshot(start).read_bytes()), start
        self._bring_up_to_date()

    def write(self, table: pa.Table) -> None:
        assert self._file is not None, "open first"
        for texts in self._messages.texts(table):
            lines = ("\n".join(texts.to_pylist()) + "\n").encode()
            self._file.write(lines)
            self._written += len(lines)

    def commit(self) -> SinkPosition:
        assert self._file is not None, "open first"
        if self._written > self.end:
            if self.syncs:
                self._file.sync()
            with self._lock:
                self.end = self._written
                if self.end - self._applied > _UNAPPLIED_BYTES:
                    self._bring_up_to_date()
        if self._is_full():
            self._roll()
        self._forget()
        return {"bytes": self.end}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_full(self) -> bool:
        start = self._starts[-1]
        old = self._clock() - self._path(start).with_suffix(_SNAPSHOT).stat().st_mtime > max(1.0, self._keep_s / 4)
        return self.end > start and (self.end - start > SEGMENT_BYTES or old)

    def _roll(self) -> None:
        with self._lock:
            self._bring_up_to_date()
            assert self._file is not None
            self._file.close()
            self._begin(self.end)

    def _begin(self, start: int) -> None:
        """Starts a segment. Its snapshot comes first, so that a segment always has one."""
        replace(self._snapshot(start), self._relation.to_bytes(), self.syncs)
        self._file = WrittenFile(self._path(start), mode=0o600)
        if self.syncs:
            sync_directory(self._folder)
        self._starts = [*self._starts, start]

    def _forget(self) -> None:
        """Removes segments whose last line is older than `keep_s`, but never the one before the last: a restart may
        have to go back by a batch."""
        while len(self._starts) > 2 and self._clock() - self._path(self._starts[0]).stat().st_mtime > self._keep_s:
            with self._lock:
                gone, self._starts = self._starts[0], self._starts[1:]
            self._remove(gone)

    # --- readers -----------------------------------------------------------------------------------------------------

    def read(self, after: int, most_bytes: int = 1 << 20) -> tuple[bytes, int]:
        """Returns whole lines after an event, and the event that they end with. Raises EventGone."""
        with self._lock:
            starts, end = self._starts, self.end
            if after > end or after < starts[0]:
                raise EventGone(f"event {after} is not kept: the log holds events from {starts[0]} to {end}")
            if after == end:
                return b"", after
            place = max(i for i, start in enumerate(starts) if start <= after)
            stop = starts[place + 1] if place + 1 < len(starts) else end
            with self._path(starts[place]).open("rb") as file:
                file.seek(after - starts[place])
                if after and after != starts[place]:
                    file.seek(-1, os.SEEK_CUR)
                    if file.read(1) != b"\n":
                        raise EventGone(f"event {after} was never given: use the id of an event")
                data = file.read(min(most_bytes, stop - after))
                if after + len(data) < stop and not data.endswith(b"\n"):
                    cut = data.rfind(b"\n") + 1
                    data = data[:cut] if cut else data + file.readline()
        return data, after + len(data)

    def current(self) -> tuple[list[bytes], str | None, int]:
        """Returns the relation now: its rows as JSON objects, the time of the last change, and the last event."""
        with self._lock:
            self._bring_up_to_date()
            return list(self._relation.objects()), self._relation.changed_at, self.end

    def _bring_up_to_date(self) -> None:
        while self._applied < self.end:
            place = max(i for i, start in enumerate(self._starts) if start <= self._applied)
            start = self._starts[place]
            stop = self._starts[place + 1] if place + 1 < len(self._starts) else self.end
            with self._path(start).open("rb") as file:
                file.seek(self._applied - start)
                data = file.read(stop - self._applied)
            if not self.is_stream:
                self._relation.apply(data.splitlines())
            self._applied = stop

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020d}{_LINES}"

    def _snapshot(self, start: int) -> Path:
        return self._path(start).with_suffix(_SNAPSHOT)

    def _remove(self, start: int) -> None:
        remove(self._path(start))
        remove(self._snapshot(start))

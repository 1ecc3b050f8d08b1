"""Base of a queue: its lock, its files, waiting, closing, and writing its state.

Invariant: `_clients` and `_store` change only under `_changed`, and every change notifies. After `close`, every call
raises QueueClosed, also one that is waiting. Cost: one lock, and one sleeping thread if `fsync` is in seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from kigen.queue.errors import QueueClosed, QueueFull, StorageFailed
from kigen.queue.producers_and_readers import ProducersAndReaders
from kigen.queue.queue_files import open_files
from kigen.queue.saving import save, without_rows
from kigen.queue.settings import QueueSettings
from kigen.queue.store import State, Store

_log = logging.getLogger(__name__)


class QueueBase:
    """State that appending and reading share."""

    def __init__(self, name: str, schema: pa.Schema, settings: QueueSettings | None = None) -> None:
        self.name, self.schema = name, schema
        self.settings = settings = settings or QueueSettings()
        self._changed = threading.Condition()
        self._closed = False
        self._clients = ProducersAndReaders(start=settings.first, end=settings.first)
        opened = open_files(name, schema, settings)
        self._lock_file = opened.lock
        self.cut_bytes = opened.cut_bytes
        if opened.clients is not None:
            self._clients = opened.clients
        folder = settings.queue_folder(name)
        self._head = opened.head
        self._store = Store(folder, settings, self._state)
        self._store.restore(opened.blocks, opened.segments)
        self._store.progress_before = opened.progress_before
        first_kept = opened.blocks[0].record.first if opened.blocks else self._clients.end
        # A trim may be newer than the last state on the disk, if that state could not be written.
        self._clients.trim_to(first_kept, None)
        self._clients.trim()  # an ack may have been ahead of tuples that were appended after it
        self._store.trim(self._clients.start)
        if settings.durable and not opened.segments:
            self._store.write_state(self._sync_each)
        self._unsynced = False
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        if settings.durable and isinstance(settings.fsync, float):
            self._syncer = threading.Thread(target=self._sync_periodically, name=f"sync {name}", daemon=True)
            self._syncer.start()

    def save(self, folder: Path, rows: bool = True) -> tuple[int, int]:
        """Writes files like those of this queue into a new folder: its tuples, or (without `rows`) only where they
        begin.

        Returns `start` and `end` of what was saved.
        """
        with self._open():
            clients = ProducersAndReaders.from_json(self._clients.to_json()) if rows else without_rows(self._clients)
            blocks = list(self._store.blocks) if rows else []
        save(folder, self._head, clients, blocks)
        return clients.start, clients.end

    def close(self) -> None:
        """Ends all calls that wait, syncs a durable queue and releases the lock."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._closing.set()
        if self._syncer is not None:
            self._syncer.join()
        with self._changed:
            if self.settings.durable:
                self._store.sync()
            self._lock_file.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._changed:
            self._not_closed()
            yield

    def _not_closed(self) -> None:
        if self._closed:
            raise QueueClosed(f"stream '{self.name}': the queue is closed")

    def _wait(self, left_s: float) -> None:
        self._changed.wait(min(left_s, 3600.0))
        self._not_closed()

    @property
    def _sync_each(self) -> bool:
        return self.settings.fsync == "always"

    def _has_room(self, size: int, tuples: int) -> bool:
        kept = self._clients.end - self._clients.start
        most = self.settings.max_tuples
        fits = self._store.kept_bytes + size <= self.settings.bound_bytes and (most is None or kept + tuples <= most)
        return fits or kept == 0  # a unit that is larger than the bound may enter an empty queue

    def _wait_for_room(self, deadline: float) -> None:
        """Waits until something changes. Raises QueueFull after the deadline."""
        left = deadline - time.monotonic()
        if left <= 0:
            waiting = {n: r.ack for n, r in self._clients.readers.items() if n in self._clients.required}
            kept = self._clients.end - self._clients.start
            data = {
                "kept_bytes": self._store.kept_bytes,
                "kept_tuples": kept,
                "waiting_for": waiting,
                "end": self._clients.end,
            }
            readers = ", ".join(f"'{n}' at {a}" for n, a in waiting.items()) or "any reader (none is required)"
            raise QueueFull(
                f"stream '{self.name}' is full ({kept:,} tuples, {self._store.kept_bytes:,} bytes): waiting for "
                f"{readers}",
                data,
            )
        self._wait(left)

    def _trimmed(self, moved: bool, sync: bool) -> None:
        """Writes the changed state after an ack or a trim. Trims the store if `start` moved."""
        self._changed.notify_all()
        try:
            self._store.write_state(sync)
        except StorageFailed as error:
            if sync:
                raise
            _log.warning("stream '%s': an ack was not stored (%s): a restart may keep more tuples", self.name, error)
        finally:
            # After the state is written, so that the state never claims tuples that are gone. A failed write must not
            # prevent this: trimming is what makes room on a full disk.
            if moved:
                self._store.trim(self._clients.start)

    def _state(self, head: bool) -> State:
        return {**(self._head if head else {}), "parties": self._clients.to_json()}

    def _sync_periodically(self) -> None:
        while not self._closing.wait(float(self.settings.fsync)):
            with self._changed:
                if self._unsynced:
                    self._unsynced = False
                    try:
                        self._store.sync()
                    except StorageFailed:
                        return  # the store refuses further appends and gives the reason

"""Sends acks in the background. A thread sends the newest offset; acks that come meanwhile are merged into one.

Invariant: acks are sent in order, and the last one always. `flush` returns when the server has the last one, and raises
what the server refused. Cost: one round trip at a time, however many blocks it covers; nothing on the reader's path.
"""

from __future__ import annotations

import threading

from kigen.links.flight.client import Link
from kigen.queue.errors import QueueError


class Acker:
    """Acknowledges offsets of one reader."""

    def __init__(self, link: Link, stream: str, reader: str, epoch: int | None = None) -> None:
        self._link, self._stream, self._reader, self._epoch = link, stream, reader, epoch
        self._changed = threading.Condition()
        self._wanted: tuple[int, str] | None = None
        self._busy = self._closed = False
        self._failure: QueueError | None = None
        self.start = 0  # first offset kept at the server, as of the last ack
        self._thread = threading.Thread(target=self._work, name=f"ack {stream}", daemon=True)
        self._thread.start()

    def done(self, offset: int, note: str = "") -> None:
        """Acknowledges all offsets below `offset`. Raises if an earlier ack was refused."""
        with self._changed:
            self._raise()
            self._wanted = (offset, note)
            self._changed.notify_all()

    def flush(self) -> int:
        """Waits until the last ack has arrived. Returns the first offset still kept."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or (self._wanted is None and not self._busy))
            self._raise()
            return self.start

    def close(self) -> None:
        """Sends the last ack and ends the thread."""
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._thread.join()

    def __enter__(self) -> Acker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted is not None)
                if self._wanted is None:
                    return
                (offset, note), self._wanted, self._busy = self._wanted, None, True
            failure: QueueError | None = None
            try:
                start = self._link.ack(self._stream, self._reader, offset, self._epoch, note)
            except QueueError as error:
                failure = error
            with self._changed:
                self._busy, self._failure = False, failure
                if failure is None:
                    self.start = start
                self._changed.notify_all()
                if failure is not None:
                    return

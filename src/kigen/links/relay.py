"""A stream on its way through nodes: a thread follows the queue of the node before and appends to this node's own, offset by offset.

Invariant: both queues number their tuples alike, so a restart goes on where the queue here ends, and whoever reads here may as well
have read there. What is in the queue here is acknowledged there: this node's files answer for it from then on.
"""

from __future__ import annotations

import threading

from kigen.links.acker import Acker
from kigen.links.address import Security
from kigen.links.client import Link
from kigen.links.connection import Patience
from kigen.links.errors import LinkDown, LinkError, QueueClosed, UnknownStream
from kigen.links.queue import Queue
from kigen.links.record import NO_PROGRESS

_AGAIN_S = 0.2


class Relay:
    def __init__(self, queue: Queue, address: str, reader: str, security: Security | None = None, compress: str = "none") -> None:
        self._queue, self._address, self._reader = queue, address, reader
        self._security, self._compress = security, compress
        self._stopped = threading.Event()
        self._link: Link | None = None
        self.connected = False
        self.error: LinkError | None = None  # what cannot be healed by trying again
        self._thread = threading.Thread(target=self._work, name=f"relay {queue.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        if self._link is not None:
            self._link.close()
        self._thread.join(10)

    def _work(self) -> None:
        """The node before may not be up yet, or be gone for a while: tried until it is there."""
        while not self._stopped.is_set():
            try:
                self._follow()
            except (LinkDown, UnknownStream, QueueClosed):
                self.connected = False
                self._stopped.wait(_AGAIN_S)
            except LinkError as error:
                if not self._stopped.is_set():
                    self.error = error
                return

    def _follow(self) -> None:
        name = self._queue.name
        self._link = link = Link(self._address, self._security, Patience(patience_s=5.0))
        try:
            producer = self._queue.open_producer("relay")
            link.open_reader(name, self._reader)
            self.connected = True
            with Acker(link, name, self._reader) as acks:
                acks.done(producer.next)
                for got in link.follow(name, producer.next, reader=self._reader, compress=self._compress):
                    progress_us = got.progress_us if got.progress_us != NO_PROGRESS else None
                    self._queue.append(got.batches, got.first, producer="relay", epoch=producer.epoch, progress_us=progress_us)
                    acks.done(got.next)
        finally:
            link.close()

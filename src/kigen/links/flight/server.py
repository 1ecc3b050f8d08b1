"""Serves queues over Arrow Flight: DoGet reads, DoPut appends with one ack per unit, DoAction does the rest.

`protocol.ACTIONS` lists the actions. Every message of DoGet and DoPut is one record (`kigen.queue.record`) in the
metadata of an empty Arrow batch. Blocks are sent as they are stored, compressed or not. Blocks that arrive are decoded
once, to check that they can be decoded. The default address is loopback; see `address`.

Invariant: only queues that were added can be reached, and clients cannot create any. No call passes without a check of
its token and its role (`tokens`). Calls, waits, names and sizes are bounded, so that a caller can keep a server busy
but cannot fill its memory.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kigen.links.errors import LinkRefused
from kigen.links.flight.address import Address, Security, may_serve
from kigen.links.flight.counters import TrafficCounters
from kigen.links.flight.service import EMPTY_SCHEMA, CopyProvider, Service
from kigen.links.flight.token_check import ROLE, TokenCheck
from kigen.links.flight.tokens import new_secret
from kigen.queue.errors import UnknownStream
from kigen.queue.stream_queue import Queue

__all__ = ["EMPTY_SCHEMA", "LinkServer"]
_CLOSING_S = 5.0
_MOST_ASKED = 256  # remembered readers that wanted to follow


class LinkServer:
    """Serves the given queues from the moment it exists. The queues belong to the caller: closing the server does not
    close them.
    """

    def __init__(
        self,
        queues: Iterable[Queue] = (),
        address: str = "127.0.0.1:0",
        security: Security | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        cut_off: Callable[[], bool] = bool,
    ) -> None:
        """Starts the server.

        `about` returns what the owner reports about itself (JSON). `cut_off` returns whether the owner currently cannot
        produce new rows, because it cannot reach its upstream nodes or has not started to work.
        """
        security = security or Security()
        where = Address.parse(address)
        tls = may_serve(where, security)
        if not security.token:  # loopback: only this process can hand out the token
            security = replace(security, token=new_secret())
        # credentials for clients in this process
        self.security = Security(security.token, roots=security.roots or security.certificate)
        self.queues: dict[str, Queue] = {q.name: q for q in queues}
        self.about, self.cut_off = about, cut_off
        self.followers: Counter[tuple[str, str]] = Counter()  # (stream, reader) -> follow calls under way
        # reader -> when it last wanted to follow a stream, whether the stream exists or not (monotonic seconds)
        self.asked: dict[str, float] = {}
        self.on_followed: Callable[[], None] = lambda: None  # called when a reader begins to follow a stream
        self.copies: CopyProvider | None = None  # provides copies of this process's files, if anything does
        self.counters = TrafficCounters()  # per reader and per producer, as "stream/name"
        self.closing = threading.Event()
        try:
            self._service = Service(
                self,
                f"grpc{'+tls' if tls else ''}://{where}",
                tls_certificates=[(security.certificate, security.key)] if tls else None,
                middleware={ROLE: TokenCheck(security.token)},
            )
        except (pa.ArrowException, OSError) as error:
            raise LinkRefused(f"cannot serve at {where}: {error}") from error
        self.address = Address(where.host, self._service.port)

    @property
    def followed(self) -> list[str]:
        """Readers that follow a stream here, as "stream/reader". A reader that just left may still be listed."""
        return sorted(f"{stream}/{reader}" for (stream, reader), count in list(self.followers.items()) if count > 0)

    def add(self, queue: Queue) -> None:
        """Serves one more queue."""
        self.queues[queue.name] = queue

    def was_asked(self, reader: str) -> None:
        """Remembers that a reader wanted to follow a stream."""
        asked = dict(self.asked)
        asked.pop(reader, None)
        self.asked = {**dict(list(asked.items())[1 - _MOST_ASKED :]), reader: time.monotonic()}

    def remove(self, queue: Queue) -> None:
        """Stops serving a queue."""
        self.queues.pop(queue.name, None)

    def queue(self, name: str) -> Queue:
        """Returns the queue of that name. Raises UnknownStream."""
        found = self.queues.get(name)
        if found is None:
            streams = sorted(self.queues)[:20]
            raise UnknownStream(
                f"no stream '{name}' at {self.address}: the streams are {', '.join(streams) or 'none'}",
                {"streams": streams},
            )
        return found

    def close(self) -> None:
        """Ends every call. A client that does not react within some seconds is abandoned: its next message is
        refused.
        """
        self.closing.set()
        self._service.say_closing()
        ending = threading.Thread(target=self._service.shutdown, name=f"end {self.address}", daemon=True)
        ending.start()
        ending.join(_CLOSING_S)

    def __enter__(self) -> LinkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

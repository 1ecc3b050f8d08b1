"""Queues served over Arrow Flight: DoGet reads, DoPut appends with an ack a unit, DoAction does the rest
(`protocol.ACTIONS`).

Every message of DoGet and DoPut is one record (`record`) in the metadata of an empty Arrow batch: blocks pass as they
lie in the queue, compressed or not; what comes is decoded once, to see that it can be. Loopback by default; see
`address`.

Invariant: only queues that were added can be reached; clients create none. No call gets past the check of its token and
its role (`tokens`); calls, waits, names and sizes are bounded, so that a caller can keep a server busy, but not fill
it.
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
from kigen.links.flight.service import EMPTY_SCHEMA, ROLE, CopyProvider, Service, TokenCheck
from kigen.links.flight.tokens import new_secret
from kigen.queue.errors import UnknownStream
from kigen.queue.stream_queue import Queue

__all__ = ["EMPTY_SCHEMA", "LinkServer"]
_CLOSING_S = 5.0
_MOST_ASKED = 256  # readers that are remembered to have asked


class LinkServer:
    """Serves the queues it is given from the moment it exists. Closing it leaves the queues open: they belong to the
    caller."""

    def __init__(
        self,
        queues: Iterable[Queue] = (),
        address: str = "127.0.0.1:0",
        security: Security | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        deaf: Callable[[], bool] = bool,
    ) -> None:
        """`about`: what whoever serves has to say of itself (JSON). `deaf`: whether nothing new can come of it for
        now, since it is cut off from those it reads from, or not at work yet."""
        security = security or Security()
        where = Address.parse(address)
        tls = may_serve(where, security)
        if not security.token:  # loopback: whoever is not given it by this process has none
            security = replace(security, token=new_secret())
        self.security = Security(
            security.token, roots=security.roots or security.certificate
        )  # for clients of this process
        self.queues: dict[str, Queue] = {q.name: q for q in queues}
        self.about, self.deaf = about, deaf
        self.followers: Counter[tuple[str, str]] = Counter()  # (stream, reader) that follow now
        self.asked: dict[
            str, float
        ] = {}  # reader -> when it last wanted to follow a stream, there or not (monotonic seconds)
        self.copies: CopyProvider | None = None  # who gives copies of this process's files, if anybody does
        self.counters = TrafficCounters()  # sent to each reader and taken from each producer, as "stream/name"
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
        """Who follows a stream here, or was here and has not been missed yet."""
        return sorted(f"{stream}/{reader}" for (stream, reader), count in list(self.followers.items()) if count > 0)

    def add(self, queue: Queue) -> None:
        self.queues[queue.name] = queue

    def was_asked(self, reader: str) -> None:
        asked = dict(self.asked)
        asked.pop(reader, None)
        self.asked = {**dict(list(asked.items())[1 - _MOST_ASKED :]), reader: time.monotonic()}

    def remove(self, queue: Queue) -> None:
        self.queues.pop(queue.name, None)

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            streams = sorted(self.queues)[:20]
            raise UnknownStream(
                f"no stream '{name}' at {self.address}: there is {', '.join(streams) or 'none'}", {"streams": streams}
            )
        return found

    def close(self) -> None:
        """Ends every call. A client that does not react within some seconds is left alone: its next message is
        refused."""
        self.closing.set()
        self._service.say_closing()
        ending = threading.Thread(target=self._service.shutdown, name=f"end {self.address}", daemon=True)
        ending.start()
        ending.join(_CLOSING_S)

    def __enter__(self) -> LinkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

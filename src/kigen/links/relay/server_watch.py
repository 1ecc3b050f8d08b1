"""Watches the server that a relay follows, and ends the connection when the reader should turn to another server.

A thread asks the server for its status on a connection of its own. It ends the followed connection when the server does
not answer in time, when the server is cut off from its own upstream node and another one is not, and when more readers
follow another server (`kigen.replicas.server_choice` decides). Cost: about ten short calls per second and stream.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kigen.links.errors import LinkDown
from kigen.links.flight.address import Security
from kigen.links.flight.client import Link
from kigen.links.flight.connection import Patience
from kigen.queue.errors import QueueError
from kigen.replicas.server_choice import ServerChoice, ServerStatus

_MEET_S = 5.0  # between two looks at which servers other readers follow


@dataclass(frozen=True)
class Watch:
    """When a server counts as gone: it does not answer for `silence_s`, asked every `every_s`.

    `alone`: ask also if there is no other server to turn to, to know whether this one is reached.
    """

    silence_s: float = 1.0
    every_s: float = 0.1
    alone: bool = False

    @property
    def patience(self) -> Patience:
        return Patience(patience_s=0.0, call_s=self.silence_s)


@dataclass(frozen=True)
class ServerWatch:
    stream: str
    addresses: Sequence[str]
    choice: ServerChoice
    security: Security | None
    watch: Watch
    on_status: Callable[[Link, dict[str, Any]], None]  # called with every answer

    def start(self, followed: Link, over: threading.Event) -> None:
        """Watches until `over` is set, in a thread."""
        name = f"watch {self.stream}"
        threading.Thread(target=self._ask_again_and_again, args=(followed, over), name=name, daemon=True).start()

    def _ask_again_and_again(self, followed: Link, over: threading.Event) -> None:
        address = self.addresses[self.choice.index]
        link, looked_s, met_s = Link(address, self.security, self.watch.patience), 0.0, time.monotonic()
        try:
            while not over.wait(self.watch.every_s):
                try:
                    answer, now = link.status(self.stream), time.monotonic()
                    here = _status(answer, self.choice.index)
                    self.on_status(link, answer)
                    if here.cut_off and now - looked_s > self.watch.silence_s:
                        looked_s = now
                        if self.choice.should_leave_cut_off(here, self._others()):
                            raise LinkDown(f"{address} is cut off from its upstream node")
                    if not here.cut_off and now - met_s > _MEET_S:
                        met_s = now
                        if self.choice.should_join_others(here, self._others()):
                            raise LinkDown(f"other readers do not follow {address}")
                except QueueError:
                    if not over.is_set():
                        followed.stop()
                    return
        finally:
            link.close()

    def _others(self) -> Iterator[ServerStatus]:
        """Asks the servers that are not followed; those that do not answer are left out."""
        for index, address in enumerate(self.addresses):
            if index != self.choice.index:
                with suppress(QueueError), Link(address, self.security, self.watch.patience) as link:
                    yield _status(link.status(self.stream), index)


def _status(answer: dict[str, Any], index: int) -> ServerStatus:
    return ServerStatus(index, answer["deaf"], frozenset(answer["followed"]))

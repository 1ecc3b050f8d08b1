"""Commits the offsets that have been processed to a consumer group, so that tools can show how far a reader is behind.

They are never read back: a run continues from its checkpoint. A commit that fails is tried again with the next one.
"""

from __future__ import annotations

import time
from typing import Any

from kigen.connectors.kafka.client import ClientOptions, client_library
from kigen.connectors.kafka.cluster import topic_and_number
from kigen.connectors.source_base import Position

_EVERY_S = 2.0


class LagReport:
    """The committed offsets of one stream. A range that is admitted shows that what lies before it is processed; if
    none follows for a while, it is processed itself."""

    def __init__(self, options: ClientOptions, group: str) -> None:
        self._options, self._group = options, group
        self._consumer: Any = None
        self._behind: tuple[int, Position] | None = None  # the earliest start of a range since the last report
        self._ahead: Position = {}  # the end of the last range
        self._moved = self._next = time.monotonic() + _EVERY_S

    def admitted(self, start: Position, end: Position) -> None:
        """Takes in a range that some task reads next."""
        if self._behind is None or start["index"] < self._behind[0]:
            self._behind = start["index"], start
        self._ahead, self._moved = end, time.monotonic()
        self.report()

    def report(self) -> None:
        """Commits in the background, every few seconds, if something has changed."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        if self._behind is not None:
            done, self._behind = self._behind[1], None
        elif self._ahead and now - self._moved > 2 * _EVERY_S:
            done, self._ahead = self._ahead, {}
        else:
            return
        library = client_library()
        if self._consumer is None:
            own = {"group.id": self._group, "enable.auto.commit": False}
            self._consumer = library.Consumer(self._options.config() | own)
        offsets = done["partitions"].items()
        places = [library.TopicPartition(*topic_and_number(name), offset) for name, offset in offsets]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
            self._consumer.poll(0)
        except library.KafkaException:
            pass  # the next report has more

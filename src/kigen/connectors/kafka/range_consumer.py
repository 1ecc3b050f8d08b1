"""Reads exact ranges of offsets from partitions, in a worker.

A consumer stays assigned and fetches ahead, so the range after the last one is usually here already; what came beyond
the end of a range is kept for the next. Offsets may have gaps (markers of transactions, compaction): a range is
complete when a later message, or the end of the partition, has been seen. Nothing is ever committed by this consumer.
Cost: about a microsecond per message; a range elsewhere costs a new fetch.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from kigen.connectors.kafka.client import Config, client_library, is_no_broker
from kigen.connectors.kafka.cluster import topic_and_number
from kigen.connectors.source_base import InputError

Message = Any  # confluent_kafka.Message
_WAIT_S = 0.25
_AT_ONCE = 10_000
_WARN_S = 10.0
_MOST_AHEAD = 100_000  # messages of one partition that are kept beyond a range
_SETTINGS: Config = {
    "group.id": "kigen",  # required by the library; never joined
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 20,  # the end of a partition is reported after an empty fetch
    "fetch.error.backoff.ms": 20,
    "fetch.queue.backoff.ms": 5,  # librdkafka's own second would be idle time whenever its queue was full
    "fetch.message.max.bytes": 4_194_304,
    "queued.max.messages.kbytes": 32_768,
}
_log = logging.getLogger("kigen")


class RangeConsumer:
    """A consumer of one stream's partitions."""

    def __init__(self, config: Config, owner: str) -> None:
        self._library = client_library()
        self._consumer = self._library.Consumer(_SETTINGS | config)
        self._owner = owner
        self._place: dict[str, int] = {}  # assigned partition -> where the last range that was read ended
        self._ahead: dict[str, deque[Message]] = {}
        self._paused: set[str] = set()  # partitions that are so far ahead that they are not fetched now
        self._ends: dict[str, int] = {}  # partition -> its end, where the consumer has reached it

    def close(self) -> None:
        self._consumer.close()

    def read(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, list[Message]]:
        """Returns the messages of each partition from its start to before its end. Waits while no broker answers;
        raises InputError if messages are no longer there."""
        wanted = {name: end for name, end in ends.items() if end > starts.get(name, 0)}
        for name in wanted:
            self._go_to(name, starts.get(name, 0))
        found: dict[str, list[Message]] = {name: self._from_ahead(name, end) for name, end in wanted.items()}
        left = {name: end for name, end in wanted.items() if not self._is_complete(name, end, found[name])}
        silent_since, warned = time.monotonic(), False
        while left:
            missing = sum(end - starts.get(name, 0) - len(found[name]) for name, end in left.items())
            messages = self._consumer.consume(min(missing, _AT_ONCE), 0) or self._consumer.consume(1, _WAIT_S)
            if messages:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > _WARN_S and not warned:
                warned = True
                _log.warning("warning: %s: waiting for messages of %s", self._owner, next(iter(left)))
            for message in messages:
                self._sort_in(message, wanted, found)
            left = {name: end for name, end in left.items() if not self._is_complete(name, end, found[name])}
        for name, end in wanted.items():
            self._place[name] = end
        return found

    def _go_to(self, name: str, start: int) -> None:
        """Makes the consumer fetch from `start`, unless it is there already."""
        is_there, is_paused = self._place.get(name) == start, name in self._paused
        if is_there and not is_paused:
            return
        if name in self._place and not is_paused:
            self._consumer.incremental_unassign([self._library.TopicPartition(*topic_and_number(name))])
        if is_there:  # it was too far ahead of other partitions: it goes on behind the messages that are kept
            begin = self._ahead[name][-1].offset() + 1
        else:  # from 0 means from the beginning, whatever is still there
            begin = start or self._library.OFFSET_BEGINNING
            self._ahead[name] = deque()
        self._paused.discard(name)
        self._ends.pop(name, None)
        self._consumer.incremental_assign([self._library.TopicPartition(*topic_and_number(name), begin)])
        self._place[name] = start

    def _from_ahead(self, name: str, end: int) -> list[Message]:
        ahead, found = self._ahead[name], []
        while ahead and ahead[0].offset() < end:
            found.append(ahead.popleft())
        return found

    def _is_complete(self, name: str, end: int, found: list[Message]) -> bool:
        return bool((found and found[-1].offset() >= end - 1) or self._ahead[name] or self._ends.get(name, -1) >= end)

    def _sort_in(self, message: Message, wanted: Mapping[str, int], found: dict[str, list[Message]]) -> None:
        name = f"{message.topic()}/{message.partition()}"
        error = message.error()
        if error is not None:
            self._note(error, name, message)
        elif name in wanted and message.offset() < wanted[name]:
            found[name].append(message)
        elif name in self._ahead:
            self._ahead[name].append(message)
            if len(self._ahead[name]) >= _MOST_AHEAD and name not in self._paused:
                self._paused.add(name)
                self._consumer.incremental_unassign([self._library.TopicPartition(*topic_and_number(name))])

    def _note(self, error: Any, name: str, message: Message) -> None:
        codes = self._library.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._ends[name] = message.offset()
        elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise InputError(
                f"{self._owner}: messages of {name} that must be read are no longer there ({error.str()}): the topic's "
                "retention is shorter than the run was behind. Start from the beginning with a new --checkpoint "
                "directory, and let the topic keep messages for longer (retention.ms)"
            )
        elif error.code() in (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
            codes._AUTHENTICATION,
        ):
            raise InputError(f"{self._owner}: the broker refuses to let {name} be read: {error.str()}")
        elif not is_no_broker(error) and error.code() != codes.UNKNOWN_TOPIC_OR_PART:
            _log.warning("warning: %s: %s", self._owner, error.str())

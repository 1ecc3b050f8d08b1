"""Asks a Kafka cluster, on the driver: which partitions a topic has, and at which offsets they begin and end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from concurrent.futures import TimeoutError as FutureTimeout
from functools import cached_property
from typing import Any

from kigen.connectors.casting import iso_us
from kigen.connectors.kafka.client import ClientOptions, client_library, is_no_broker
from kigen.connectors.source_base import InputError

_ANSWER_S = 10.0
Offsets = dict[str, int]  # of partitions, named `topic/number`


class NoBroker(Exception):
    """No broker answers now. It may come back."""


def topic_and_number(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("/")
    return topic, int(number)


class Cluster:
    """One topic, several (`'a, b'`) or all that match a pattern (`'^cars-.*'`)."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        topic = options.text("topic")
        self._pattern = re.compile(topic) if topic.startswith("^") else None
        self._topics = [name.strip() for name in topic.split(",") if name.strip()]

    @cached_property
    def _library(self) -> Any:
        return client_library()

    @cached_property
    def _admin_library(self) -> Any:
        return client_library(".admin")

    @cached_property
    def _admin(self) -> Any:
        return self._admin_library.AdminClient(self._options.config())

    def wait_for(self, within_s: float) -> list[str]:
        """Returns the partitions as soon as a broker answers; raises InputError if none does in time."""
        until = time.monotonic() + within_s
        while True:
            try:
                return self.partitions()
            except NoBroker as error:
                if time.monotonic() > until:
                    raise InputError(
                        f"{self._options.owner}: no broker answers at {self._options.brokers} for {within_s:g} s "
                        f"({error}): check the address, the network and the options security, sasl_mechanism, ssl_ca"
                    ) from error
                time.sleep(0.3)

    def partitions(self) -> list[str]:
        """Returns the partitions that exist now; raises NoBroker, or InputError if a named topic does not exist."""
        try:
            found = self._admin.list_topics(timeout=_ANSWER_S).topics
        except self._library.KafkaException as error:
            raise self._meaning(error) from error
        if self._pattern is not None:
            topics = [name for name in sorted(found) if self._pattern.match(name) and not name.startswith("__")]
        else:
            topics = self._topics
        names = []
        for topic in topics:
            about = found.get(topic)
            if about is None or (about.error is not None and not about.partitions):
                if about is not None and is_no_broker(about.error):
                    raise NoBroker(str(about.error))
                raise InputError(self._missing(topic, sorted(found)))
            names += [f"{topic}/{number}" for number in sorted(about.partitions)]
        return names

    def starts(self, partitions: Iterable[str], start: str) -> Offsets:
        """Returns the offsets at which a new run begins: `earliest`, `latest` or a time."""
        spec = self._admin_library.OffsetSpec
        if start in ("earliest", "latest"):
            return self._offsets(partitions, spec.earliest() if start == "earliest" else spec.latest())
        at_us = iso_us(start if "T" in start or " " in start else f"{start}T00:00:00Z")
        if at_us is None:
            raise InputError(
                f"{self._options.owner}: start must be 'earliest', 'latest' or a time such as "
                f"'2026-01-02T03:04:05Z', found {start!r}"
            )
        names = list(partitions)
        found = self._offsets(names, spec.for_timestamp(-(-at_us // 1000)))
        ends = self.ends(names)
        return {name: ends[name] if at < 0 else at for name, at in found.items()}  # below 0: nothing is that new

    def ends(self, partitions: Iterable[str]) -> Offsets:
        """Returns the offset after the last message that a reader of committed messages sees."""
        return self._offsets(partitions, self._admin_library.OffsetSpec.latest())

    def _offsets(self, partitions: Iterable[str], spec: Any) -> Offsets:
        library = self._library
        asked = {library.TopicPartition(*topic_and_number(name)): spec for name in partitions}
        if not asked:
            return {}
        committed = library.IsolationLevel.READ_COMMITTED
        try:
            futures = self._admin.list_offsets(asked, isolation_level=committed, request_timeout=_ANSWER_S)
            found = {f"{at.topic}/{at.partition}": int(f.result(_ANSWER_S + 1).offset) for at, f in futures.items()}
        except (library.KafkaException, FutureTimeout) as error:
            raise self._meaning(error) from error
        unanswered = [name for name, offset in found.items() if offset == library.OFFSET_INVALID]
        if unanswered:  # librdkafka's answer for a partition whose leader cannot be reached
            raise NoBroker(f"no broker leads {unanswered[0]}")
        return found

    def _meaning(self, error: Exception) -> Exception:
        if isinstance(error, FutureTimeout):
            return NoBroker("no answer in time")
        cause = error.args[0]
        if is_no_broker(cause):
            return NoBroker(cause.str())
        codes = self._library.KafkaError
        if cause.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._NOENT):  # the second: "No leaders found"
            return NoBroker(cause.str())  # also while a broker starts; `partitions` tells a topic that is gone
        return InputError(f"{self._options.owner}: the broker refuses: {cause.str()}")

    def _missing(self, topic: str, there: list[str]) -> str:
        listed = ", ".join(name for name in there if not name.startswith("__")) or "none"
        return (
            f"{self._options.owner}: topic '{topic}' does not exist at {self._options.brokers}; there are: {listed}. "
            "Create it, or correct option topic"
        )

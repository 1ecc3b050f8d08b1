"""Fills topics with cars, and counts what is in a topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kigen_lab.servers.kafka_broker import Broker

PARTITIONS = 2
ARROW_ROWS = 10_000  # per message
_FAST: dict[str, Any] = {"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000}
LEAST_SPEED = 50  # of 100: half of the cars are selected


class HiddenCars:
    """Fills a topic with cars that readers of committed messages do not see yet, but for a few.

    So a contestant can start, and show by the first cars that it runs, before the others come, all at once.
    `selected` and `selected_early` count the cars that the selection finds.
    """

    def __init__(self, broker: Broker, topic: str, form: str, rows: int, early: int) -> None:
        broker.create(topic, PARTITIONS)
        rng, self._topic = np.random.default_rng(18), topic
        speed = np.round(rng.uniform(0, 100, rows + early), 1)
        is_fast = speed > LEAST_SPEED
        self.rows, self.selected, self.selected_early = rows, int(is_fast.sum()), int(is_fast[:early].sum())
        values = _json_values if form == "json" else _arrow_values
        first = broker.producer(**_FAST)
        self._send(first, values(speed[:early], 0))
        first.flush()
        hidden = {"transactional.id": f"bench-{topic}", "transaction.timeout.ms": 900_000}
        self._producer = broker.producer(**_FAST, **hidden)
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        self._send(self._producer, values(speed[early:], early))
        self._producer.flush()

    def release(self) -> float:
        """Lets readers see all cars. Returns the moment, of the monotonic clock."""
        now = time.monotonic()
        self._producer.commit_transaction(60)
        return now

    def _send(self, producer: Any, values: Iterator[bytes]) -> None:
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(self._topic, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)


def _json_values(speed: npt.NDArray[np.float64], first: int) -> Iterator[bytes]:
    for number, value in enumerate(speed.tolist(), first):
        yield b'{"id": %d, "speed": %.1f}' % (number, value)


def _arrow_values(speed: npt.NDArray[np.float64], first: int) -> Iterator[bytes]:
    for at in range(0, len(speed), ARROW_ROWS):
        piece = speed[at : at + ARROW_ROWS]
        table = pa.table({"id": np.arange(first + at, first + at + len(piece)), "speed": piece})
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, table.schema) as writer:
            writer.write_table(table)
        yield bytes(body.getvalue())


class TopicEnds:
    """Counts the committed offsets of a topic. Markers of transactions count, too: some per second."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._admin = broker.admin()
        self._asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def __call__(self) -> int:
        futures = self._admin.list_offsets(
            self._asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=10
        )
        return sum(int(future.result(11).offset) for future in futures.values())


class CommittedRows:
    """Counts the rows that Kigen has committed, by the group of its output."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "log_level": 0})
        self._place, self._last = TopicPartition(topic, 0), 0

    def __call__(self) -> int:
        with suppress(KafkaException):  # while the group's coordinator is being made
            self._last = max(0, int(self._consumer.committed([self._place], timeout=10)[0].offset))
        return self._last


def messages(broker: Broker, topic: str) -> Iterator[bytes]:
    """Yields the values of a topic's committed messages, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bench-check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                yield message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended += 1
    consumer.close()

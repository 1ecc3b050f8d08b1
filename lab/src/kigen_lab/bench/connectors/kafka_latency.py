"""Measures the latency Kafka to Kafka: from the moment a message is handed to the producer until a consumer has its
result, for a reader of committed messages and one of all messages, side by side."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.connectors.progress import wait_for
from kigen_lab.bench.connectors.topics import PARTITIONS
from kigen_lab.servers.kafka_broker import Broker

LEVELS = ("read_committed", "read_uncommitted")
# One request at a time: what comes meanwhile goes together. A busy broker would else get a request per message, and the
# queue of requests would be measured.
_PROMPT = {"linger.ms": 1, "max.in.flight.requests.per.connection": 1}
_APP = """
CREATE STREAM cars (id BIGINT, sent BIGINT) FROM kafka (brokers = '{brokers}', topic = '{topic}', start = 'latest');
CREATE QUERY seen DEADLINE 100 MILLISECONDS AS ISTREAM(SELECT id, sent FROM cars [NOW])
  INTO kafka (brokers = '{brokers}', topic = '{target}', commit = '100 ms');
"""


class _Reader(threading.Thread):
    """Reads the results, and notes how old each one is."""

    def __init__(self, broker: Broker, topic: str, level: str) -> None:
        super().__init__(daemon=True)
        settings = {
            "bootstrap.servers": broker.address,
            "group.id": f"bench-{level}",
            "isolation.level": level,
            "fetch.wait.max.ms": 5,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self.latencies_us: dict[int, int] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                now_us, row = time.time_ns() // 1000, json.loads(message.value())
                self.latencies_us.setdefault(row["id"], now_us - row["sent"])
        self._consumer.close()


def latencies_ms(
    broker: Broker, topic: str, rate: int, warm_s: float, seconds: float, folder: Path
) -> dict[str, dict[str, float]]:
    """Returns p50 and p99 per isolation level, of the messages of the last `seconds`."""
    target = f"{topic}-out"
    for name in (topic, target):
        broker.create(name, PARTITIONS)
    text = _APP.format(brokers=broker.address, topic=topic, target=target)
    readers = {level: _Reader(broker, target, level) for level in LEVELS}
    for reader in readers.values():
        reader.start()
    producer, sent = broker.producer(**_PROMPT), 0
    with KigenCommand(text, folder) as run:
        until = time.monotonic() + 180
        while not readers[LEVELS[0]].latencies_us and time.monotonic() < until:  # the run starts at the latest message
            run.require()
            sent = _send(producer, topic, sent, 1)
            time.sleep(0.2)
        began, start = time.monotonic(), sent
        first = start + round(rate * warm_s)
        while (elapsed := time.monotonic() - began) < warm_s + seconds:
            sent = _send(producer, topic, sent, start + int(elapsed * rate) - sent)
            time.sleep(0.001)
        producer.flush()
        for reader in readers.values():
            wait_for(lambda reader=reader: max(reader.latencies_us, default=0), sent - 1, run.require)  # type: ignore[misc]
    for reader in readers.values():
        reader.ended.set()
        reader.join()
    return {level: _quantiles(reader, first) for level, reader in readers.items()}


def _send(producer: Any, topic: str, first: int, count: int) -> int:
    for number in range(first, first + count):
        value = b'{"id": %d, "sent": %d}' % (number, time.time_ns() // 1000)
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.poll(0)
    return first + count


def _quantiles(reader: _Reader, first: int) -> dict[str, float]:
    counted = np.array([took for number, took in reader.latencies_us.items() if number >= first])
    return {f"p{p}": round(float(np.percentile(counted, p)) / 1000, 1) for p in (50, 99)}

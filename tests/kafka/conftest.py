"""Starts librdkafka's mock cluster, and produces to it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from confluent_kafka import Producer

from kigen.connectors import SourceRequest
from kigen.connectors.kafka.source import KafkaSource
from kigen.plan.binder import bind


class MockCluster:
    """A cluster in this process. A topic exists, with four partitions, once it is produced to."""

    def __init__(self, brokers: int = 1) -> None:
        self._host = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
        self.brokers = ",".join(f"{b.host}:{b.port}" for b in self._host.list_topics(timeout=60).brokers.values())
        self._producer = Producer({"bootstrap.servers": self.brokers, "log_level": 0, "linger.ms": 1})

    def send(self, topic: str, value: Any, partition: int = 0, **more: Any) -> None:
        """Sends a message; anything but bytes is written as JSON."""
        body = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        self._producer.produce(topic, body, partition=partition, **more)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def transactional(self, name: str) -> Any:
        producer = Producer({"bootstrap.servers": self.brokers, "log_level": 0, "transactional.id": name})
        producer.init_transactions(60)
        return producer

    def source(
        self, topic: str, columns: str, options: str = "", clauses: str = "", draining: bool = True
    ) -> KafkaSource:
        more = f", {options}" if options else ""
        text = (
            f"CREATE STREAM s ({columns}) {clauses} FROM kafka (brokers = '{self.brokers}', topic = '{topic}'{more});"
        )
        app = bind(text + " CREATE QUERY q AS SELECT * FROM s [NOW];")
        return KafkaSource(SourceRequest(app.streams[0], ".", draining, None, None))


@pytest.fixture(scope="session")
def cluster() -> MockCluster:
    logging.getLogger("confluent_kafka").setLevel(logging.CRITICAL)
    return MockCluster()

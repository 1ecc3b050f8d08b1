"""A mock cluster of three brokers whose leaders move and whose topics disappear.

confluent-kafka does not offer these calls of librdkafka's mock cluster, so they are made on the library that its wheel
carries.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import confluent_kafka

UNKNOWN_TOPIC = 3
_PRODUCER = 0


def _library() -> Any:
    folder = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
    for name in ("conf_new", "new", "handle_mock_cluster", "mock_cluster_bootstraps"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MovingCluster:
    """The cluster. It lives until the process ends."""

    def __init__(self, brokers: int = 3) -> None:
        self._library, text = _library(), ctypes.create_string_buffer(500)
        conf = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        for name, value in (("test.mock.num.brokers", str(brokers)), ("log_level", "0")):
            assert not self._library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, 500), text.value
        host = ctypes.c_void_p(self._library.rd_kafka_new(_PRODUCER, conf, text, 500))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_handle_mock_cluster(host))
        assert self._cluster.value, text.value
        self.brokers = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create(self, topic: str, partitions: int) -> None:
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 3)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Moves a partition to another broker: 1, 2 or 3."""
        assert not self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker)

    def go_down(self, broker: int) -> None:
        """Makes a broker refuse connections. It leads its partitions as before, so nobody can read them."""
        assert not self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def come_up(self, broker: int) -> None:
        assert not self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def delete(self, topic: str) -> None:
        """Makes brokers say that the topic does not exist."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), UNKNOWN_TOPIC)

    def restore(self, topic: str) -> None:
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), 0)

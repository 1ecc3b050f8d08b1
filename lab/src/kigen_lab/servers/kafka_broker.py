"""A Kafka broker on this machine, started by the repository's script: it is started, killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kigen_lab.servers.errors import ServerMissing
from kigen_lab.servers.ports import free_ports

SCRIPT = Path(__file__).resolve().parents[4] / "scripts" / "kafka-broker.sh"


class Broker:
    """One node, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, _ = free_ports(2)  # the second is the controller's
        self.address = f"127.0.0.1:{self._port}"
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        assert self._pid is not None, "start first"
        return self._pid

    def start(self) -> None:
        if not SCRIPT.exists():
            raise ServerMissing("no Kafka broker: scripts/kafka-broker.sh is in the repository only")
        done = subprocess.run(
            ["bash", str(SCRIPT), "start", str(self._folder), str(self._port)],
            capture_output=True,
            text=True,
            timeout=240,
            close_fds=True,
            check=False,
        )
        if done.returncode:
            raise ServerMissing(f"no Kafka broker: {done.stderr.strip()}")
        self._pid = int(done.stdout)
        until = time.monotonic() + 60
        while not self.admin().list_topics(timeout=10).brokers:
            assert time.monotonic() < until
            time.sleep(0.2)

    def kill(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._pid = None
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", self._port)):
                        return
                time.sleep(0.05)

    def admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create(self, topic: str, partitions: int = 2) -> None:
        admin = self.admin()  # kept: its futures end with it
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        while len(admin.list_topics(topic, timeout=10).topics[topic].partitions) < partitions:
            time.sleep(0.05)

    def grow(self, topic: str, partitions: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def producer(self, **more: Any) -> Any:
        return Producer({"bootstrap.servers": self.address, "log_level": 0, "linger.ms": 1, **more})

    def committed(self, topic: str, partitions: int = 2) -> list[tuple[bytes | None, bytes | None]]:
        """Returns (key, value) of all messages that a reader of committed messages sees."""
        settings = {
            "bootstrap.servers": self.address,
            "group.id": "check",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        found: list[tuple[bytes | None, bytes | None]] = []
        ended: set[int] = set()
        until = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < until, "the end of the topic is not reached: a transaction is open"
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                found.append((message.key(), message.value()))
                ended.discard(message.partition())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        consumer.close()
        return found


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()

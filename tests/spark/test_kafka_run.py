"""Runs Kafka to Kafka on a real broker: a run is killed (in the soak also the broker), bad messages and new partitions
come; each row is out once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.servers.kafka_broker import Broker, running_broker

_KILLS = 10 if os.environ.get("KIGEN_SOAK") else 1

APP = """
CREATE STREAM cars (id BIGINT, speed DOUBLE, p BIGINT) ON ERROR SKIP
  FROM kafka (brokers = '{brokers}', topic = 'cars', columns = 'p = partition');
CREATE QUERY fast AS ISTREAM(SELECT id, p FROM cars [NOW] WHERE speed > 50)
  INTO kafka (brokers = '{brokers}', topic = 'fast');
CREATE QUERY counted AS SELECT p, COUNT(*) AS n FROM cars [UNBOUNDED] GROUP BY p
  INTO kafka (brokers = '{brokers}', topic = 'counted', mode = 'upsert', key = 'p');
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kigen.cli.main", "run", "app.cql", "--checkpoint", "state"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Cars:
    """Sends rows, and bad messages between them. Their time is the broker's: no row is late."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self.sent = broker, 0

    def send(self, count: int, partitions: int) -> None:
        self._producer = self._broker.producer()  # a new one knows all partitions
        for n in range(self.sent, self.sent + count):
            row = json.dumps({"id": n, "speed": n % 100}).encode()
            self._producer.produce("cars", row, partition=n % partitions)
            if n % 50 == 7:
                self._producer.produce("cars", b"poison", partition=n % partitions)
        self.sent += count
        assert self._producer.flush(30) == 0


def fast_ids(broker: Broker) -> list[int]:
    return sorted(json.loads(value or b"{}")["id"] for _, value in broker.committed("fast"))


def counts_in(broker: Broker) -> dict[bytes | None, int]:
    newest: dict[bytes | None, Any] = dict(broker.committed("counted"))
    return {key: json.loads(value)["n"] for key, value in newest.items()}


def wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    until = time.monotonic() + 200
    while not there():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.2)


def expected(cars: Cars) -> list[int]:
    return [n for n in range(cars.sent) if n % 100 > 50]


def end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    os.kill(process.pid, how)
    process.communicate(timeout=200)


@pytest.mark.timeout(900 if _KILLS == 1 else 0)
def test_kafka_to_kafka(tmp_path: Path) -> None:
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    print(f"KIGEN_SEED={seed}")
    rng = random.Random(seed)
    with running_broker(tmp_path / "broker") as broker:
        for topic in ("cars", "fast", "counted"):
            broker.create(topic)
        (tmp_path / "app.cql").write_text(APP.format(brokers=broker.address))
        cars = Cars(broker)
        cars.send(1_000, partitions=2)
        process = start(tmp_path)
        wait_for(process, lambda: len(fast_ids(broker)) >= 100)
        for kill in range(_KILLS):
            cars.send(1_000, partitions=2)
            time.sleep(rng.uniform(0, 0.5) if _KILLS == 1 else rng.uniform(0, 8))
            if kill % 3 == 1:  # the run waits for the broker
                broker.kill()
                broker.start()
            else:
                end(process, signal.SIGKILL)
                process = start(tmp_path) if kill < _KILLS - 1 else process
        broker.grow("cars", 3)
        cars.send(999, partitions=3)
        process = start(tmp_path)
        wait_for(process, lambda: len(fast_ids(broker)) >= len(expected(cars)))
        wait_for(process, lambda: sum(counts_in(broker).values()) >= cars.sent)  # perhaps in another lane
        end(process, signal.SIGINT)
        assert fast_ids(broker) == expected(cars)
        counts = counts_in(broker)
        assert sum(counts.values()) == cars.sent
        assert set(counts) == {b"0", b"1", b"2"}

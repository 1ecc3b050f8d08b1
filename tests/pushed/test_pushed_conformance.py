"""Pushed streams pass the suite for connectors: HTTP by the path of the server's handlers, and MQTT on a broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.servers.mosquitto import Mosquitto

from kigen.connectors.pushed import IngestQueue, decode_batch
from kigen.testing.connector import RECEIVER_CHECKS, ReceiverCase

COLUMNS = "(room STRING, n BIGINT)"


def push(queue: IngestQueue, rows: Sequence[tuple[Any, ...]]) -> None:
    """Pushes a batch as `POST /streams/NAME` does, and again with the same key, as a sender that got no answer."""
    body = "".join(json.dumps({"room": room, "n": n}) + "\n" for room, n in rows).encode()
    for _ in range(2):
        decoded = decode_batch(body, "application/x-ndjson", queue.stream, time.time_ns() // 1000)
        queue.push(decoded, key=f"batch-{rows[0][1]}", data=body)


@pytest.mark.parametrize("check", RECEIVER_CHECKS)
def test_http(check: Callable[[ReceiverCase], None], tmp_path: Path) -> None:
    check(ReceiverCase(f"CREATE STREAM s {COLUMNS} FROM http ()", push, lambda n: (f"r{n % 3}", n), tmp_path))


@pytest.mark.parametrize("check", RECEIVER_CHECKS)
def test_mqtt(check: Callable[[ReceiverCase], None], tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    broker = Mosquitto(tmp_path / "broker")
    declaration = f"CREATE STREAM s {COLUMNS} FROM mqtt (broker = '{broker.address}', topic = 'rooms/+', columns = 'room = topic[1]')"
    subscribed = False

    def publish(queue: IngestQueue, rows: Sequence[tuple[Any, ...]]) -> None:
        nonlocal subscribed
        if not subscribed:  # the broker keeps messages only for those who have subscribed once
            broker.await_subscriptions(1)
            subscribed = True
        broker.publish(*((f"rooms/{room}", json.dumps({"n": n})) for room, n in rows))

    try:
        check(ReceiverCase(declaration, publish, lambda n: (f"r{n % 3}", n), tmp_path, keeps=True))
    finally:
        broker.stop()

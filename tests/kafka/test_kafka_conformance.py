"""`FROM kafka` and `INTO kafka` pass the suite for connectors: the source on librdkafka's mock cluster, the sink on a
real broker, since only that has transactions that hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from kigen_lab.servers.kafka_broker import Broker, running_broker

from kigen.testing.connector import SINK_CHECKS, SOURCE_CHECKS, SinkCase, SourceCase, Target

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(n, f"n{n}", START + timedelta(seconds=n)) for n in range(25)]


def source_case(cluster: Any, kind: str) -> SourceCase:
    topic, places = f"t{uuid4().hex[:8]}", []
    sent: dict[int, int] = {}
    for n, name, ts in ROWS:
        partition = n % 3
        if "bad" in kind and n % 6 == 4:
            cluster.send(topic, b'{"id": "x"}' if n % 4 else b"no object", partition)
            places.append(f"{topic}/{partition}:{sent.get(partition, 0)}")
            sent[partition] = sent.get(partition, 0) + 1
        cluster.send(topic, {"id": n, "name": name, "ts": ts.isoformat()}, partition)
        sent[partition] = sent.get(partition, 0) + 1
    cluster.flush()
    declared = "CREATE STREAM s (id BIGINT, name STRING, ts TIMESTAMP) TIMESTAMP BY ts"
    declaration = f"{declared} FROM kafka (brokers = '{cluster.brokers}', topic = '{topic}')"
    return SourceCase(declaration, ROWS, places, live="live" in kind)


@pytest.mark.parametrize("check", SOURCE_CHECKS)
@pytest.mark.parametrize("kind", ["drained", "drained bad", "live", "live bad"])
def test_the_source(cluster: Any, kind: str, check: Callable[[SourceCase], None]) -> None:
    check(source_case(cluster, kind))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as one:
        yield one


def read(broker: Broker, topic: str, keyed: bool) -> list[dict[str, Any]]:
    found = broker.committed(topic, 1)
    if not keyed:
        return [json.loads(value or b"") for _, value in found]
    newest = dict(found)
    return [json.loads(value) for value in newest.values() if value is not None]


@pytest.mark.parametrize("check", SINK_CHECKS)
@pytest.mark.parametrize("mode", ["append", "changes", "upsert"])
def test_the_sink(broker: Broker, mode: str, check: Callable[[SinkCase], None]) -> None:
    def target(name: str) -> Target:
        broker.create(name, 1)
        key = ", key = 'id'" if mode == "upsert" else ""
        into = f"kafka (brokers = '{broker.address}', topic = '{name}', mode = '{mode}'{key})"
        return Target(into, lambda: read(broker, name, mode == "upsert"))

    check(SinkCase(target, relation=mode != "append"))

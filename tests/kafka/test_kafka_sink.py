"""Tests `INTO kafka` on a real broker: every row once, wherever a run was cut off, and a zombie is fenced."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from kigen_lab.servers.kafka_broker import Broker, running_broker

from kigen.connectors import InputError, SinkRequest
from kigen.connectors.kafka.sink import KafkaSink
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type

SCHEMA = (Column("id", Type.BIGINT), Column("name", Type.STRING))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as one:
        yield one


def sink(broker: Broker, topic: str, run: str = "run", is_stream: bool = True, **options: Any) -> KafkaSink:
    given = {"brokers": broker.address, "topic": topic, **options}
    made = KafkaSink(SinkRequest(Connector("kafka", tuple(given.items())), SCHEMA, is_stream, ".", "q"))
    made.run_name = run
    return made


def lines(first: int, end: int) -> pa.Table:
    ids = list(range(first, end))
    return pa.table({"c0": ids, "c1": [f"n{i}" for i in ids], "_at": [i * 1000 for i in ids]})


def ids(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(value or b"{}")["id"] for _, value in broker.committed(topic))


def test_every_row_once_wherever_a_run_is_cut_off(broker: Broker) -> None:
    """The position is recorded, or not, after any commit; a sink is abandoned with an open transaction, or not."""
    broker.create("cut")
    rng = random.Random(7)
    recorded: dict[str, Any] | None = None
    for _ in range(8):
        out = sink(broker, "cut")
        out.open(None if recorded is None else dict(recorded))
        at = 0 if recorded is None else recorded["rows"]
        for _ in range(rng.randint(1, 3)):
            size = rng.randint(0, 40)
            for cut in range(at, at + size, 9):
                out.write(lines(cut, min(cut + 9, at + size)))
            at += size
            position = out.commit()
            assert position == {"rows": at}
            if rng.random() < 0.6:
                recorded = position
        out.write(lines(at, at + 5))  # never committed
        if rng.random() < 0.5:
            out.close()
    last = sink(broker, "cut")
    last.open(recorded)
    last.write(lines(0 if recorded is None else recorded["rows"], 400))
    assert last.commit() == {"rows": 400}
    last.close()
    assert ids(broker, "cut") == list(range(400))


def test_a_zombie_is_fenced(broker: Broker) -> None:
    broker.create("fenced")
    old, new = sink(broker, "fenced"), sink(broker, "fenced")
    old.open(None)
    old.write(lines(0, 3))
    new.open(None)
    with pytest.raises(InputError, match="has taken over"):
        old.commit()
    new.write(lines(0, 3))
    new.commit()
    old.close()
    new.close()
    assert ids(broker, "fenced") == [0, 1, 2]


def test_another_run_starts_afresh_and_lost_rows_are_noticed(broker: Broker) -> None:
    broker.create("again")
    for run in ("one", "two"):
        out = sink(broker, "again", run, transactional_id="mine")
        out.open(None)
        out.write(lines(0, 2))
        out.commit()
        out.close()
    assert ids(broker, "again") == [0, 0, 1, 1]
    with pytest.raises(InputError, match="the broker has lost data"):
        sink(broker, "again", "two", transactional_id="mine").open({"rows": 9})
    with pytest.raises(InputError, match="topic 'absent' does not exist: create it"):
        sink(broker, "absent").open(None)


def test_messages_of_each_mode(broker: Broker) -> None:
    for topic in ("relation", "upsert", "blocks"):
        broker.create(topic, 1)
    relation = sink(broker, "relation", is_stream=False)
    relation.open(None)
    relation.write(pa.table({"c0": [1], "c1": ['é"'], "_from": [0], "_to": pa.array([None], pa.int64())}))
    relation.commit()
    relation.close()
    ((_, body),) = broker.committed("relation", 1)
    assert json.loads(body or b"") == {"id": 1, "name": 'é"', "_from": "1970-01-01T00:00:00.000000Z", "_to": None}
    upsert = sink(broker, "upsert", is_stream=False, mode="upsert", key="id")
    upsert.open(None)
    upsert.write(pa.table({"c0": [1, 1], "c1": ["a", "a"], "_op": ["insert", "delete"], "_at": [1, 2]}))
    upsert.commit()
    upsert.close()
    assert [(key, value and json.loads(value)) for key, value in broker.committed("upsert", 1)] == [
        (b"1", {"id": 1, "name": "a"}),
        (b"1", None),
    ]
    blocks = sink(broker, "blocks", format="arrow")
    blocks.open(None)
    blocks.write(lines(0, 25_000))
    blocks.commit()
    blocks.close()
    tables = [pa.ipc.open_stream(value).read_all() for _, value in broker.committed("blocks", 1)]
    assert [t.num_rows for t in tables] == [10_000, 10_000, 5_000]
    assert tables[0].column_names == ["id", "name", "_at"]

"""`FROM kafka` in trouble: leaders move, nobody leads for a while, a topic is deleted, messages of every format are
poison. Every message is read once, or the error says what is lost."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kigen.connectors import InputError, LiveSource, Range, open_source
from kigen.connectors.kafka.cluster import NoBroker
from kigen.connectors.kafka.producing import TransactionalOutput
from kigen.plan import bind

sys.path.insert(0, str(Path(__file__).parent))

from moving_cluster import MovingCluster

PARTITIONS = 3
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def moving() -> MovingCluster:
    return MovingCluster()


def source_of(brokers: str, topic: str, draining: bool = False, columns: str = "id BIGINT", more: str = "") -> Any:
    options, _, clauses = more.partition(";")
    declared = f"CREATE STREAM s ({columns}) {clauses} FROM kafka (brokers = '{brokers}', topic = '{topic}'{options});"
    stream = bind(declared + "CREATE QUERY q AS SELECT * FROM s [NOW];").streams[0]
    return open_source(stream, ".", draining, None)


def send(brokers: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": brokers, "log_level": 0, "linger.ms": 1})
    for n in numbers:
        producer.produce(topic, json.dumps({"id": n}).encode(), partition=n % PARTITIONS)
    assert producer.flush(120) == 0


def until(there: Callable[[], bool], within_s: float = 120.0) -> None:
    end = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


class Reading:
    """Reads a live source, as a run does: the driver's object hands out ranges, and a worker's reads them."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.driver, self.worker = source_of(brokers, topic), source_of(brokers, topic)
        assert isinstance(self.driver, LiveSource)
        self.driver.resume({0: self.driver.initial()})
        self.at, self.ids = 0, list[int]()

    def read(self, count: int) -> None:
        """Reads so many more messages, as soon as they have arrived."""
        until(lambda: self.driver.arrived_by(0) >= self.at + count)
        self.driver.position(self.at + count)
        piece = self.driver.piece("s", self.at, self.at + count, None, False)
        rows = self.worker.read(Range.from_json(json.loads(json.dumps(piece.to_json()))))
        self.ids += rows.table["c0"].to_pylist()
        self.at += count

    def close(self) -> None:
        self.driver.close()
        self.worker.close()


def test_leaders_move_while_a_stream_is_read(moving: MovingCluster) -> None:
    moving.create("moving", PARTITIONS)
    reading = Reading(moving.brokers, "moving")
    for step in range(4):
        for partition in range(PARTITIONS):
            moving.lead("moving", partition, 1 + (partition + step) % 3)
        send(moving.brokers, "moving", range(step * 30, step * 30 + 30))
        reading.read(20)  # what is left waits for the next leader
    reading.read(40)
    reading.close()
    assert sorted(reading.ids) == list(range(120))


def test_a_drain_goes_on_when_leaders_move(moving: MovingCluster) -> None:
    moving.create("drained", PARTITIONS)
    send(moving.brokers, "drained", range(90))
    source = source_of(moving.brokers, "drained", draining=True)
    position, ids = source.initial(), list[int]()
    for step in range(9):
        piece = source.advance(position, 10)
        ids += source.read(piece).table["c0"].to_pylist()
        position = piece.end
        moving.lead("drained", step % PARTITIONS, 1 + step % 3)
    source.close()
    assert piece.ended
    assert sorted(ids) == list(range(90))


def test_leaders_that_are_down_are_waited_for(moving: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kigen.connectors.kafka.cluster._ANSWER_S", 0.5)
    moving.create("leaderless", PARTITIONS)
    send(moving.brokers, "leaderless", range(30))
    reading = Reading(moving.brokers, "leaderless")
    reading.read(15)
    for broker in (1, 2):
        moving.go_down(broker)
    time.sleep(1.0)
    assert reading.driver.arrived_by(0) == 30, "what was seen stays seen"
    for broker in (1, 2):
        moving.come_up(broker)
    send(moving.brokers, "leaderless", range(30, 60))
    reading.read(45)
    reading.close()
    assert sorted(reading.ids) == list(range(60))


def test_a_topic_that_is_deleted_ends_the_run_and_one_that_comes_back_does_not(
    moving: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kigen.connectors.kafka.watcher._TOPICS_S", 0.05)
    monkeypatch.setattr("kigen.connectors.kafka.watcher._GONE_S", 8.0)
    moving.create("deleted", PARTITIONS)
    send(moving.brokers, "deleted", range(9))
    reading = Reading(moving.brokers, "deleted")
    reading.read(9)
    moving.delete("deleted")
    time.sleep(0.5)
    moving.restore("deleted")
    send(moving.brokers, "deleted", range(9, 18))
    reading.read(9)
    assert sorted(reading.ids) == list(range(18))
    moving.delete("deleted")

    with pytest.raises(InputError, match=r"(topic 'deleted' does not exist|deleted/\d no longer exists)"):
        until(lambda: reading.driver.arrived_by(0) < 0)
    reading.close()


SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "double"}]}


def avro(n: int) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), {"id": n, "v": n / 2})
    return body.getvalue()


def arrow(n: int) -> bytes:
    body = io.BytesIO()
    table = pa.table({"id": [n], "v": [n / 2]})
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    return body.getvalue()


FORMATS: dict[str, tuple[Callable[[int], bytes], list[bytes | None]]] = {
    "json": (
        lambda n: json.dumps({"id": n, "v": n / 2}).encode(),
        [b"", b"{", b"[]", b'{"id": 1.5}', b'{"id": "1"}', b'{"id": 99999999999999999999}', b"\xff\xfe", b'{"id": {}}'],
    ),
    "csv": (lambda n: f"{n},{n / 2}".encode(), [b"x,1.0", b"1", b"1,2,3", b'"open,1', b"1,2\n3,4", b"\xff,1"]),
    "avro": (avro, [b"", b"\xff" * 12, b"\x02"]),
    "arrow": (arrow, [b"", b"ARROW1", arrow(1)[:40], b"\x00" * 64]),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [1, 10**9])
def test_poison_of_every_format_is_named_and_the_rest_is_read(
    cluster: Any, kind: str, size: int, tmp_path: Path
) -> None:
    good, poison = FORMATS[kind]
    topic, places = f"poison-{kind}-{size}", []
    for n in range(20):
        cluster.send(topic, good(n))
        if n % 2 and n // 2 < len(poison):
            places.append(f"{topic}/0:{n + 1 + len(places)}")
            cluster.send(topic, poison[n // 2])
    cluster.flush()
    (tmp_path / "r.avsc").write_text(json.dumps(SCHEMA))
    schema = f", schema = '{tmp_path}/r.avsc'" if kind == "avro" else ""
    more = f", format = '{kind}'{schema}; ON ERROR INTO console ()"
    source = source_of(cluster.brokers, topic, draining=True, columns="id BIGINT, v DOUBLE", more=more)
    position, ids, found = source.initial(), list[int](), list[str]()
    while True:
        piece = source.advance(position, size)
        rows = source.read(piece)
        ids += rows.table["c0"].to_pylist()
        found += [bad.place for bad in rows.bad]
        position = piece.end
        if piece.ended:
            break
    source.close()
    assert ids == list(range(20))
    assert found == places


@pytest.mark.parametrize(
    "code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE]
)
def test_a_broker_that_does_not_know_its_partitions_yet_is_away(cluster: Any, code: int) -> None:
    """As a broker answers that was away for minutes and has just started: the run waits."""
    source = source_of(cluster.brokers, "starting")
    assert isinstance(source._cluster._meaning(KafkaException(KafkaError(code))), NoBroker)
    source.close()


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_an_output_waits_for_a_coordinator_that_is_not_ready(code: int) -> None:
    """As a broker answers that has just started: the output must not end the run."""
    output = TransactionalOutput({}, "query 'q'", "topic", "name", "run")
    answers = iter([KafkaException(KafkaError(code)), KafkaException(KafkaError(code)), 7])

    def call() -> Any:
        answer = next(answers)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    assert output._retry(call) == 7

"""A Kafka broker, a PostgreSQL server or an MQTT broker that is away for a while (in the soak: five minutes): the run waits, says so,
goes on, and each row is out once."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kigen_lab.servers.kafka_broker import Broker, running_broker
from kigen_lab.servers.mosquitto import Mosquitto
from kigen_lab.servers.postgres_server import PostgresServer
from live_command import IS_SOAK, LiveCommand
from mqtt_ends import ROOMS, Reader

_AWAY_S = 300 if IS_SOAK else 20
_WAYS = ["killed", "frozen"] if IS_SOAK else ["frozen"]  # the short kills are in test_kafka_run and test_postgres_kill

KAFKA = """
CREATE STREAM cars (id BIGINT) FROM kafka (brokers = '{brokers}', topic = 'cars');
CREATE QUERY out AS ISTREAM(SELECT id FROM cars [NOW]) INTO kafka (brokers = '{brokers}', topic = 'out');
"""
POSTGRES = """
CREATE STREAM seen (n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts IDLE 1 SECONDS FROM csv (path = 'in.csv', follow = true);
CREATE QUERY history AS ISTREAM(SELECT n FROM seen [NOW]) INTO postgres (url_env = 'PG_URL', table = 'history');
CREATE QUERY total AS SELECT 'all' AS k, COUNT(*) AS n FROM seen [UNBOUNDED]
  INTO postgres (url_env = 'PG_URL', table = 'total', mode = 'current', key = 'k');
"""
MQTT = """
CREATE STREAM m (n BIGINT, room STRING) FROM mqtt (broker = '{broker}', topic = 'in/+', columns = 'room = topic[1]');
CREATE QUERY seen AS ISTREAM(SELECT n FROM m [NOW]);
CREATE QUERY tops AS SELECT room, MAX(n) AS top FROM m [UNBOUNDED] GROUP BY room
  INTO mqtt (broker = '{broker}', topic = 'tops', mode = 'upsert', key = 'room');
"""


def processes_of(pid: int) -> list[int]:
    """Returns a process and those that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [n for child in (task / "children").read_text().split() for n in processes_of(int(child))]
    return found


def freeze(pids: list[int], away: Callable[[], None]) -> None:
    """Stops processes while `away` runs: they accept connections, and never answer."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        away()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def ids(broker: Broker) -> list[int]:
    return sorted(json.loads(value or b"{}")["id"] for _, value in broker.committed("out"))


@pytest.mark.timeout(600 if not IS_SOAK else 0)
@pytest.mark.parametrize("how", _WAYS)
def test_a_kafka_broker_is_away(tmp_path: Path, how: str) -> None:
    with running_broker(tmp_path / "broker") as broker:
        for topic in ("cars", "out"):
            broker.create(topic)
        command = LiveCommand(tmp_path, KAFKA.format(brokers=broker.address))

        def send(first: int, end: int) -> None:
            producer = broker.producer()
            for n in range(first, end):
                producer.produce("cars", json.dumps({"id": n}).encode(), partition=n % 2)
            assert producer.flush(60) == 0

        def away() -> None:
            began = time.monotonic()
            command.wait_for(lambda: "the run waits for it" in command.errors(), 60)
            command.wait_for(lambda: time.monotonic() - began > _AWAY_S, _AWAY_S + 60)

        try:
            command.start()
            send(0, 500)
            command.wait_for(lambda: len(ids(broker)) >= 500)
            send(500, 20_000)  # it goes in the middle of these
            if how == "frozen":
                freeze([broker.pid], away)
            else:
                broker.kill()
                away()
                broker.start()
            send(20_000, 21_000)
            command.wait_for(lambda: len(ids(broker)) >= 21_000)
            command.wait_for(lambda: "the broker answers again" in command.errors())
            command.stop()
            assert ids(broker) == list(range(21_000))
        finally:
            command.kill()


@pytest.mark.timeout(600 if not IS_SOAK else 0)
@pytest.mark.parametrize("how", _WAYS)
def test_a_postgres_server_is_away(tmp_path: Path, how: str) -> None:
    server = PostgresServer()
    server.start()
    command = LiveCommand(tmp_path, POSTGRES, PG_URL=server.url)
    path = tmp_path / "in.csv"
    path.write_text("n,ts\n", encoding="utf-8")

    def write(first: int, end: int) -> None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with path.open("a", encoding="utf-8") as file:
            for n in range(first, end):
                file.write(f"{n},{when}\n")

    def count() -> int:
        exists = server.rows("SELECT to_regclass('history') IS NOT NULL")[0][0]
        return int(server.rows("SELECT count(*) FROM history")[0][0]) if exists else 0

    def away() -> None:
        began, written = time.monotonic(), 500
        while time.monotonic() - began < _AWAY_S:  # the input goes on
            write(written, written + 10)
            written += 10
            command.wait_for(lambda: True)
            time.sleep(1)
        command.wait_for(lambda: "waits: PostgreSQL" in command.errors(), 60)
        sent[0] = written

    sent = [500]
    try:
        command.start()
        write(0, 500)
        command.wait_for(lambda: count() >= 500)
        if how == "frozen":
            freeze(processes_of(server.pid), away)
        else:
            server.stop()
            away()
            server.start()
        command.wait_for(lambda: count() >= sent[0])
        command.wait_for(lambda: "PostgreSQL is back" in command.errors())
        write(sent[0], sent[0] + 100)
        command.wait_for(lambda: server.rows("SELECT n FROM total") == [(sent[0] + 100,)])
        command.stop()
        assert server.rows("SELECT n FROM history ORDER BY n") == [(n,) for n in range(sent[0] + 100)]
    finally:
        command.kill()
        server.remove()


@pytest.mark.timeout(600 if not IS_SOAK else 0)
@pytest.mark.parametrize("how", _WAYS if IS_SOAK else ["killed"])  # a frozen broker is noticed after 45 s
def test_an_mqtt_broker_is_away(tmp_path: Path, how: str) -> None:
    (tmp_path / "broker").mkdir()
    broker = Mosquitto(tmp_path / "broker")
    command = LiveCommand(tmp_path, MQTT.format(broker=broker.address))
    reader: Reader | None = None

    def seen() -> list[int]:
        path = tmp_path / "out" / "seen.csv"
        return [int(line.partition(",")[0]) for line in path.read_text().splitlines()[1:]] if path.exists() else []

    def send(first: int, end: int) -> None:
        broker.publish(*((f"in/r{n % ROOMS}", json.dumps({"n": n})) for n in range(first, end)))

    def away() -> None:
        began = time.monotonic()
        command.wait_for(lambda: "waiting for it" in command.errors(), 120)
        command.wait_for(lambda: time.monotonic() - began > _AWAY_S, _AWAY_S + 60)

    try:
        command.start()
        broker.await_subscriptions(1)
        send(0, 500)
        command.wait_for(lambda: len(seen()) >= 500)
        send(500, 5_000)  # it goes in the middle of these
        if how == "frozen":
            freeze([broker.pid], away)
        else:
            broker.stop()
            away()
            broker.start()
        command.wait_for(lambda: "is back" in command.errors())
        send(5_000, 6_000)
        command.wait_for(lambda: len(seen()) >= 6_000)
        reader = Reader(broker)  # what is true now is retained
        last = {f"r{room}": max(range(room, 6_000, ROOMS)) for room in range(ROOMS)}
        command.wait_for(lambda: reader.tops == last)
        command.stop()
        assert sorted(seen()) == list(range(6_000))
    finally:
        command.kill()
        if reader is not None:
            reader.close()
        broker.stop()

"""A Kafka broker, a PostgreSQL server or an MQTT broker that is away for a while: the run waits, says so, goes on, and
each row is out once. In the soak each is away for five minutes, killed and frozen, in a run of its own."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from kigen_lab.servers.kafka_broker import running_broker
from kigen_lab.servers.mosquitto import Mosquitto
from kigen_lab.servers.postgres_server import PostgresServer
from live_command import IS_SOAK, LiveCommand
from mqtt_ends import ROOMS, Reader

_AWAY_S = 300 if IS_SOAK else 10

KAFKA = """
CREATE STREAM cars (id BIGINT) FROM kafka (brokers = '{brokers}', topic = 'cars');
CREATE QUERY out AS ISTREAM(SELECT id FROM cars [NOW]) INTO kafka (brokers = '{brokers}', topic = 'out');
"""
POSTGRES = """
CREATE STREAM written (n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts IDLE 1 SECONDS FROM csv (path = 'in.csv', follow = true);
CREATE QUERY history AS ISTREAM(SELECT n FROM written [NOW]) INTO postgres (url_env = 'PG_URL', table = 'history');
CREATE QUERY total AS SELECT 'all' AS k, COUNT(*) AS n FROM written [UNBOUNDED]
  INTO postgres (url_env = 'PG_URL', table = 'total', mode = 'current', key = 'k');
"""
MQTT = """
CREATE STREAM m (n BIGINT, room STRING) FROM mqtt (broker = '{broker}', topic = 'in/+', columns = 'room = topic[1]');
CREATE QUERY seen AS ISTREAM(SELECT n FROM m [NOW]);
CREATE QUERY tops AS SELECT room, MAX(n) AS top FROM m [UNBOUNDED] GROUP BY room
  INTO mqtt (broker = '{broker}', topic = 'tops', mode = 'upsert', key = 'room');
"""


class Server(Protocol):
    """A server with the part of an app that uses it. It is ended by the ExitStack that it is made with."""

    app: str
    environment: dict[str, str]

    def begin(self, command: LiveCommand) -> None:
        """Sends the first rows and waits for their results."""

    def go_away(self, command: LiveCommand, how: str) -> None:
        """Goes away in the middle of rows, comes back, and waits for the results of all rows."""

    def check(self) -> None:
        """Checks after the end that each row is out once."""


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


def await_words(command: LiveCommand, words: str) -> None:
    """Waits until the run has said it, and for as long as the server is to be away."""
    until = time.monotonic() + _AWAY_S
    command.wait_for(lambda: words in command.errors(), 120)
    command.wait_for(lambda: time.monotonic() > until, _AWAY_S + 60)


class Kafka:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._broker = stack.enter_context(running_broker(folder / "kafka"))
        for topic in ("cars", "out"):
            self._broker.create(topic)
        self.app, self.environment = KAFKA.format(brokers=self._broker.address), dict[str, str]()

    def _ids(self) -> list[int]:
        return sorted(json.loads(value or b"{}")["id"] for _, value in self._broker.committed("out"))

    def _send(self, first: int, end: int) -> None:
        producer = self._broker.producer()
        for n in range(first, end):
            producer.produce("cars", json.dumps({"id": n}).encode(), partition=n % 2)
        assert producer.flush(60) == 0

    def begin(self, command: LiveCommand) -> None:
        self._send(0, 500)
        command.wait_for(lambda: len(self._ids()) >= 500)

    def go_away(self, command: LiveCommand, how: str) -> None:
        self._send(500, 20_000)  # it goes in the middle of these
        if how == "frozen":
            freeze([self._broker.pid], lambda: await_words(command, "no broker answers"))
        else:
            self._broker.kill()
            await_words(command, "no broker answers")
            self._broker.start()
        self._send(20_000, 21_000)
        command.wait_for(lambda: len(self._ids()) >= 21_000)
        command.wait_for(lambda: "the broker answers again" in command.errors())

    def check(self) -> None:
        assert self._ids() == list(range(21_000))


class Postgres:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._server = PostgresServer()
        stack.callback(self._server.remove)
        self._server.start()
        self.app, self.environment = POSTGRES, {"PG_URL": self._server.url}
        self._path, self._rows = folder / "in.csv", 0
        self._path.write_text("n,ts\n", encoding="utf-8")

    def _write(self, count: int) -> None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{n},{when}\n" for n in range(self._rows, self._rows + count))
        self._rows += count

    def _count(self) -> int:
        exists = self._server.rows("SELECT to_regclass('history') IS NOT NULL")[0][0]
        return int(self._server.rows("SELECT count(*) FROM history")[0][0]) if exists else 0

    def begin(self, command: LiveCommand) -> None:
        self._write(500)
        command.wait_for(lambda: self._count() >= 500)

    def _await_words(self, command: LiveCommand) -> None:
        until = time.monotonic() + _AWAY_S
        while time.monotonic() < until:  # the input goes on
            self._write(10)
            command.wait_for(lambda: True)
            time.sleep(1)
        command.wait_for(lambda: "waits: PostgreSQL" in command.errors(), 60)

    def go_away(self, command: LiveCommand, how: str) -> None:
        if how == "frozen":
            freeze(processes_of(self._server.pid), lambda: self._await_words(command))
        else:
            self._server.stop()
            self._await_words(command)
            self._server.start()
        command.wait_for(lambda: self._count() >= self._rows)
        command.wait_for(lambda: "PostgreSQL is back" in command.errors())
        self._write(100)
        command.wait_for(lambda: self._server.rows("SELECT n FROM total") == [(self._rows,)])

    def check(self) -> None:
        assert self._server.rows("SELECT n FROM history ORDER BY n") == [(n,) for n in range(self._rows)]


class Mqtt:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        (folder / "mqtt").mkdir()
        self._broker, self._stack = Mosquitto(folder / "mqtt"), stack
        stack.callback(self._broker.stop)
        self.app, self.environment = MQTT.format(broker=self._broker.address), dict[str, str]()
        self._seen_file = folder / "out" / "seen.csv"

    def _seen(self) -> list[int]:
        if not self._seen_file.exists():
            return []
        return [int(line.partition(",")[0]) for line in self._seen_file.read_text().splitlines()[1:]]

    def _send(self, first: int, end: int) -> None:
        self._broker.publish(*((f"in/r{n % ROOMS}", json.dumps({"n": n})) for n in range(first, end)))

    def begin(self, command: LiveCommand) -> None:
        self._broker.await_subscriptions(1)
        self._send(0, 500)
        command.wait_for(lambda: len(self._seen()) >= 500)

    def go_away(self, command: LiveCommand, how: str) -> None:
        self._send(500, 5_000)  # it goes in the middle of these
        if how == "frozen":
            freeze([self._broker.pid], lambda: await_words(command, "waiting for it"))
        else:
            self._broker.stop()
            await_words(command, "waiting for it")
            self._broker.start()
        command.wait_for(lambda: f"the broker {self._broker.address} is back" in command.errors())
        self._send(5_000, 6_000)
        command.wait_for(lambda: len(self._seen()) >= 6_000)
        reader = Reader(self._broker)  # what is true now is retained
        self._stack.callback(reader.close)
        last = {f"r{room}": max(range(room, 6_000, ROOMS)) for room in range(ROOMS)}
        command.wait_for(lambda: reader.tops == last)

    def check(self) -> None:
        assert sorted(self._seen()) == list(range(6_000))


def check_away(folder: Path, kinds: list[tuple[type, str]]) -> None:
    """Runs one app that uses these servers. They are away one after the other."""
    with ExitStack() as stack:
        servers: list[tuple[Server, str]] = [(kind(folder, stack), how) for kind, how in kinds]
        environment = {name: value for server, _ in servers for name, value in server.environment.items()}
        command = LiveCommand(folder, "".join(server.app for server, _ in servers), **environment)
        stack.callback(command.kill)
        command.start()
        for server, _ in servers:
            server.begin(command)
        for server, how in servers:
            server.go_away(command, how)
        command.stop()
        for server, _ in servers:
            server.check()


@pytest.mark.timeout(900)
def test_servers_are_away_one_after_the_other(tmp_path: Path) -> None:
    """A frozen Kafka broker is in the soak: once such a broker reported that a transaction was aborted and had not
    written it to the partitions (docs/reference/kafka.md). A frozen MQTT broker is noticed after 45 s only."""
    check_away(tmp_path, [(Kafka, "killed"), (Postgres, "frozen"), (Mqtt, "killed")])


@pytest.mark.skipif(not IS_SOAK, reason="minutes: make soak")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.parametrize("kind", [Kafka, Postgres, Mqtt])
def test_a_server_is_away_for_minutes(tmp_path: Path, kind: type, how: str) -> None:
    check_away(tmp_path, [(kind, how)])

"""Messages of a real broker into an ingest queue: none lost and none twice, whoever goes away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kigen_lab.servers.mosquitto import Mosquitto as Broker

from kigen.connectors import ReceiverRequest
from kigen.connectors.mqtt.receiver import MqttReceiver
from kigen.connectors.pushed import IngestQueue
from kigen.plan import bind


class Bench:
    """A receiver and its queue, which can be opened again."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder, self.said = broker, folder, list[str]()
        self.queue: IngestQueue | None = None
        self._before = 0

    def open(self, clauses: str = "", session: str | None = "kigen-test") -> MqttReceiver:
        declared = f"CREATE STREAM m (room STRING, n BIGINT) {clauses} FROM mqtt (broker = '{self.broker.address}', topic = 'rooms/+', columns = 'room = topic[1]');"
        stream = bind(declared + "CREATE QUERY q AS SELECT n FROM m [NOW];").streams[0]
        self.queue = IngestQueue(stream, self.folder, self.folder / "clock", syncs=False)
        self.receiver = MqttReceiver(ReceiverRequest(stream, self.queue, ".", session, self.said.append))
        self._before = self.broker.subscriptions()
        self.receiver.start()
        return self.receiver

    def close(self) -> None:
        self.receiver.close()
        assert self.queue is not None
        self.queue.close()

    @property
    def numbers(self) -> list[int]:
        assert self.queue is not None
        found: list[int] = []
        while len(found) < self.queue.queue.status()["end"]:
            found += self.queue.queue.read(len(found)).batch().column("c1").to_pylist()
        return found

    def subscribed(self) -> None:
        """Waits until the broker sends what is published."""
        self.broker.await_subscriptions(self._before + 1)


@pytest.fixture
def bench(broker: Broker, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(broker, tmp_path / "queue")
    yield made
    made.close()


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def numbered(first: int, end: int) -> list[tuple[str, str]]:
    return [(f"rooms/r{i % 3}", f'{{"n": {i}}}') for i in range(first, end)]


def test_all_messages_arrive_in_order(bench: Bench) -> None:
    bench.open()
    bench.subscribed()
    bench.broker.publish(*numbered(0, 500))
    until(lambda: len(bench.numbers) >= 500)
    assert bench.numbers == list(range(500))
    assert bench.queue is not None
    assert bench.queue.queue.read(0, 4).batch().column("c0").to_pylist() == ["r0", "r1", "r2", "r0"]
    assert bench.said == []


def test_the_broker_keeps_what_comes_while_the_run_is_away(bench: Bench) -> None:
    bench.open()
    bench.subscribed()
    bench.broker.publish(*numbered(0, 10))
    until(lambda: len(bench.numbers) >= 10)
    bench.close()
    bench.broker.publish(*numbered(10, 30))
    bench.open()
    until(lambda: len(bench.numbers) >= 30)
    assert bench.numbers == list(range(30))


def test_a_lost_acknowledgement_gives_no_message_twice(bench: Bench) -> None:
    """The first receiver ends after it has stored messages and before it acknowledges them."""
    receiver = bench.open()
    receiver._client.ack = lambda mid, qos: None  # type: ignore[method-assign, assignment, return-value]
    bench.subscribed()
    bench.broker.publish(*numbered(0, 5))
    until(lambda: len(bench.numbers) >= 5)
    bench.close()
    bench.open()
    bench.subscribed()
    bench.broker.publish(*numbered(5, 8))
    until(lambda: len(bench.numbers) >= 8)  # what was not acknowledged comes before what is new
    assert bench.numbers == list(range(8))


def test_a_broker_that_is_away_is_waited_for(bench: Bench) -> None:
    bench.broker.stop()
    bench.open()
    until(lambda: bool(bench.said))
    assert "cannot be reached; waiting for it" in bench.said[0]
    bench.broker.start()
    until(lambda: len(bench.said) >= 2)
    bench.subscribed()
    bench.broker.publish(*numbered(0, 5))
    until(lambda: len(bench.numbers) >= 5)
    bench.broker.stop()
    until(lambda: len(bench.said) >= 3)
    assert "has closed the connection" in bench.said[2]
    bench.broker.start()
    bench.broker.publish(*numbered(5, 9))  # the broker keeps them: it has a session of the receiver
    until(lambda: len(bench.numbers) >= 9)
    assert bench.numbers == list(range(9))
    assert bench.said[1].endswith("is back")


def test_a_full_buffer_makes_the_broker_wait(bench: Bench) -> None:
    bench.open("BUFFER 20")
    bench.subscribed()
    bench.broker.publish(*numbered(0, 60))
    until(lambda: len(bench.numbers) >= 1)
    time.sleep(0.5)  # more may come, but not more than there is room for
    assert len(bench.numbers) <= 20
    assert bench.queue is not None
    queue = bench.queue
    until(lambda: queue.committed(None, queue.status()["taken"]) is None and len(bench.numbers) >= 60)
    assert bench.numbers == list(range(60))


def test_retained_messages_come_once(bench: Bench) -> None:
    bench.broker.publish(*numbered(0, 1), retain=True)
    bench.open()
    until(lambda: len(bench.numbers) >= 1)
    bench.close()
    bench.open()
    bench.subscribed()
    bench.broker.publish(*numbered(1, 2))
    until(lambda: len(bench.numbers) >= 2)
    assert bench.numbers == [0, 1]


def test_a_bad_message_ends_the_receiver_or_is_counted(bench: Bench) -> None:
    receiver = bench.open(session=None)
    bench.subscribed()
    bench.broker.publish(("rooms/a", "nonsense"))
    until(lambda: receiver.error is not None)
    assert "a JSON object required, found" in str(receiver.error)
    bench.close()
    bench.open("ON ERROR SKIP", session=None)
    bench.subscribed()
    bench.broker.publish(("rooms/a", "nonsense"))
    bench.broker.publish(*numbered(0, 1))
    until(lambda: len(bench.numbers) >= 1)
    assert bench.queue is not None
    notes = [note for note in bench.queue.queue.read(0).batch().column("_note").to_pylist() if note]
    assert '"skipped": 1' in notes[0], "a batch without a good row is reported with the next one"

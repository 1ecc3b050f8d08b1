"""Messages of a broker to a run that is killed and started again, and its results at the broker: nothing is lost, and a
message that comes again is recognised."""

from __future__ import annotations

import csv
import json
import threading
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from kigen_lab.servers.mosquitto import Mosquitto as Broker
from live_command import IS_SOAK, LiveCommand, seeded
from paho.mqtt.enums import CallbackAPIVersion

_KILLS = 10 if IS_SOAK else 1
_ROOMS = 7

APP = """
CREATE STREAM m (n BIGINT, room STRING) FROM mqtt (broker = '{broker}', topic = 'in/+', columns = 'room = topic[1]');
CREATE QUERY seen AS ISTREAM(SELECT n FROM m [NOW]);
CREATE QUERY sent AS ISTREAM(SELECT n, room FROM m [NOW]) INTO mqtt (broker = '{broker}', topic = 'sent');
CREATE QUERY tops AS SELECT room, MAX(n) AS top FROM m [UNBOUNDED] GROUP BY room
  INTO mqtt (broker = '{broker}', topic = 'tops', mode = 'upsert', key = 'room');
"""


class Sender(threading.Thread):
    """Publishes numbered messages with QoS 1; waits for the broker to have each piece."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._broker, self.sent, self._done = broker, 0, threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.05):
            numbers = range(self.sent, self.sent + 20)
            self._broker.publish(*((f"in/r{n % _ROOMS}", json.dumps({"n": n})) for n in numbers))
            self.sent += 20

    def end(self) -> int:
        self._done.set()
        self.join()
        return self.sent


class Reader:
    """Reads results with QoS 1. Keeps the first message of each number, as the page tells a reader to do."""

    def __init__(self, broker: Broker) -> None:
        self.rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.tops: dict[str, int] = {}
        self.repeated = 0
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.on_message = self._arrived
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        self._client.subscribe([("sent", 1), ("tops/+", 1)])
        assert subscribed.wait(120)

    def _arrived(self, client: mqtt.Client, user: Any, message: mqtt.MQTTMessage) -> None:
        if message.topic != "sent":
            self.tops[message.topic.partition("/")[2]] = json.loads(message.payload)["top"]
            return
        about = dict(getattr(message.properties, "UserProperty", []))
        key = (about["run"], about["query"], about["sequence"])
        self.repeated += key in self.rows
        before = self.rows.setdefault(key, json.loads(message.payload))
        assert before == json.loads(message.payload), "a number is one row for ever"

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def seen(folder: Path) -> list[int]:
    path = folder / "out" / "seen.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [int(row["n"]) for row in csv.DictReader(file)]


@pytest.mark.timeout(900 if _KILLS == 1 else 0)
def test_messages_survive_kills_once(tmp_path: Path) -> None:
    rng = seeded()
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker")
    command = LiveCommand(tmp_path, APP.format(broker=broker.address))
    reader, sender = Reader(broker), Sender(broker)
    try:
        command.start()
        broker.await_subscriptions(3)  # two of the reader; from now on the broker keeps what comes
        sender.start()
        for _ in range(_KILLS):
            goal = len(seen(tmp_path)) + rng.randrange(1, 800)
            command.wait_for(lambda goal=goal: len(seen(tmp_path)) >= goal)
            time.sleep(rng.uniform(0, 1.0))
            command.kill(with_jvm=rng.random() < 0.5)
            command.start()
        goal = len(seen(tmp_path)) + 200
        command.wait_for(lambda: len(seen(tmp_path)) >= goal)
        sent = sender.end()
        last = {f"r{room}": max(range(room, sent, _ROOMS)) for room in range(_ROOMS)}
        command.wait_for(lambda: len(seen(tmp_path)) >= sent and len(reader.rows) >= sent and reader.tops == last)
        command.stop()
        assert sorted(seen(tmp_path)) == list(range(sent)), "every message once"
        assert sorted(row["n"] for row in reader.rows.values()) == list(range(sent)), "every result once"
        print(f"{sent} messages, {reader.repeated} results came again and were recognised")
    finally:
        sender.end() if sender.is_alive() else None
        reader.close()
        command.kill()
        broker.stop()

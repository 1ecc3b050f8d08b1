"""The two ends of a run over MQTT: who publishes its input, and who reads its results."""

from __future__ import annotations

import json
import threading
from typing import Any

import paho.mqtt.client as mqtt
from kigen_lab.servers.mosquitto import Mosquitto as Broker
from paho.mqtt.enums import CallbackAPIVersion

ROOMS = 7


class Sender(threading.Thread):
    """Publishes numbered messages with QoS 1; waits for the broker to have each piece."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._broker, self.sent, self._done = broker, 0, threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.05):
            numbers = range(self.sent, self.sent + 20)
            self._broker.publish(*((f"in/r{n % ROOMS}", json.dumps({"n": n})) for n in numbers))
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

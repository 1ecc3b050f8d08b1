"""`INTO mqtt` passes the suite for connectors, for readers that drop what they have by its number."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from kigen_lab.servers.mosquitto import Mosquitto
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from kigen.testing.connector import SINK_CHECKS, SinkCase, Target


class Subscriber:
    """Keeps what was published below a topic: each message once, by its number, and the newest of each topic."""

    def __init__(self, port: int, topic: str) -> None:
        self.lines: dict[str, bytes] = {}
        self.retained: dict[str, bytes] = {}
        self._marker, self._marked = f"{topic}/all of it", threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.on_message = self._arrived
        self._client.connect("127.0.0.1", port)
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.loop_start()
        self._client.subscribe([(topic, SubscribeOptions(qos=1)), (f"{topic}/#", SubscribeOptions(qos=1))])
        assert subscribed.wait(120)

    def _arrived(self, client: Any, user: Any, message: mqtt.MQTTMessage) -> None:
        if message.topic == self._marker:
            self._marked.set()
            return
        about = dict(message.properties.UserProperty)
        self.lines[about["sequence"]] = message.payload
        self.retained[message.topic] = message.payload

    def read(self, keyed: bool) -> list[dict[str, Any]]:
        """Returns all rows that the broker has, or those that are true now: they come before the marker does."""
        self._marked.clear()
        self._client.publish(self._marker, b"", qos=1)
        assert self._marked.wait(120)
        return [json.loads(p) for p in (self.retained if keyed else self.lines).values() if p]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    made = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield made
    made.stop()


@pytest.mark.parametrize("check", SINK_CHECKS)
@pytest.mark.parametrize("mode", ["append", "changes", "upsert"])
def test_the_sink(broker: Mosquitto, mode: str, check: Callable[[SinkCase], None], tmp_path: Path) -> None:
    subscribers: list[Subscriber] = []

    def target(name: str) -> Target:
        subscribers.append(Subscriber(broker.port, name))
        key = ", key = 'id'" if mode == "upsert" else ""
        into = f"mqtt (broker = '{broker.address}', topic = '{name}', mode = '{mode}'{key})"
        return Target(into, lambda one=subscribers[-1]: one.read(mode == "upsert"))  # type: ignore[misc]

    try:
        check(SinkCase(target, relation=mode != "append"))
    finally:
        for one in subscribers:
            one.close()

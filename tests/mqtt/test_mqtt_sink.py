"""Results at a real broker: what a reader receives, what is retained, and what a kill or a lost broker leaves."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import paho.mqtt.client as mqtt
import pyarrow as pa
import pytest
from kigen_lab.servers.mosquitto import Mosquitto as Broker
from paho.mqtt.enums import CallbackAPIVersion

from kigen.connectors import InputError, OptionError
from kigen.connectors.mqtt.sink import MqttSink, topic_level
from kigen.connectors.requests import SinkRequest
from kigen.language import CqlErrors
from kigen.plan import bind
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type

SCHEMA = (Column("room", Type.STRING), Column("n", Type.BIGINT))


class Reader:
    """Subscribes with QoS 1, and collects messages with their user properties."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.messages: list[tuple[str, bytes, dict[str, str], bool]] = []
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.on_message = self._arrived
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        self._client.subscribe(topic, qos=1)
        assert subscribed.wait(120)

    def _arrived(self, client: mqtt.Client, user: Any, message: mqtt.MQTTMessage) -> None:
        about = dict(getattr(message.properties, "UserProperty", []))
        self.messages.append((message.topic, bytes(message.payload), about, message.retain))

    def wait(self, count: int) -> list[tuple[str, bytes, dict[str, str], bool]]:
        until = time.monotonic() + 120
        while len(self.messages) < count and time.monotonic() < until:
            time.sleep(0.01)
        return list(self.messages)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def sink_of(broker: Broker, is_stream: bool = True, **options: object) -> MqttSink:
    given = {"broker": broker.address, "topic": "out", **options}
    made = MqttSink(SinkRequest(Connector("mqtt", tuple(given.items())), SCHEMA, is_stream, ".", "q"))
    made.run_name = "run"
    return made


def rows(first: int, end: int) -> pa.Table:
    return pa.table(
        {"c0": [f"r{i}" for i in range(first, end)], "c1": list(range(first, end)), "_at": [7] * (end - first)}
    )


def changes(*given: tuple[str, str, int]) -> pa.Table:
    op, room, n = zip(*given, strict=True)
    return pa.table({"c0": list(room), "c1": list(n), "_at": [7] * len(op), "_op": list(op)})


def test_each_line_is_a_message_with_its_number(broker: Broker) -> None:
    reader, sink = Reader(broker, "out"), sink_of(broker)
    sink.open(None)
    sink.write(rows(0, 3))
    assert sink.commit() == {"rows": 3}
    sink.close()
    topic, payload, _, retained = reader.wait(3)[0]
    assert (topic, retained) == ("out", False)
    assert json.loads(payload) == {"room": "r0", "n": 0, "_at": "1970-01-01T00:00:00.000007Z"}
    assert [m[2] for m in reader.messages] == [{"run": "run", "query": "q", "sequence": str(i)} for i in (1, 2, 3)]
    reader.close()


def test_after_a_kill_a_reader_that_drops_repeats_has_every_row_once(broker: Broker) -> None:
    reader, sink = Reader(broker, "out"), sink_of(broker)
    sink.open(None)
    sink.write(rows(0, 5))
    position = sink.commit()
    sink.write(rows(5, 8))
    sink._publisher.flush()  # type: ignore[union-attr]  # the broker has them, and the run never records it
    sink.close()
    again = sink_of(broker)
    again.open(position)
    again.write(rows(5, 10))
    again.commit()
    again.close()
    seen = {about["sequence"]: json.loads(payload)["n"] for _, payload, about, _ in reader.wait(13)}
    assert len(reader.messages) == 13
    assert sorted(seen.values()) == list(range(10))
    reader.close()


def test_upsert_retains_what_is_true_now(broker: Broker) -> None:
    live, sink = Reader(broker, "out/#"), sink_of(broker, False, mode="upsert", key="room")
    sink.open(None)
    sink.write(changes(("insert", "a", 1), ("insert", "b/c", 2), ("insert", "d", 4)))
    sink.write(changes(("insert", "a", 3), ("delete", "d", 4)))
    sink.commit()
    sink.close()
    assert [(m[0], m[1]) for m in live.wait(5)][-1] == ("out/d", b"")
    later = Reader(broker, "out/#")
    found = {topic: json.loads(payload) for topic, payload, _, retained in later.wait(2) if retained}
    assert found == {"out/a": {"room": "a", "n": 3}, "out/b%2Fc": {"room": "b/c", "n": 2}}
    live.close()
    later.close()


def test_a_broker_that_is_away_is_waited_for(broker: Broker) -> None:
    sink = sink_of(broker)
    sink.open(None)
    sink.write(rows(0, 2))
    sink.commit()
    broker.stop()
    sink.write(rows(2, 4))
    done = threading.Thread(target=sink.commit, daemon=True)
    done.start()
    time.sleep(0.3)
    assert done.is_alive()
    broker.start()
    reader = Reader(broker, "out")
    done.join(120)
    assert not done.is_alive()
    assert {json.loads(m[1])["n"] for m in reader.wait(2)} <= {2, 3}
    sink.close()
    reader.close()


def test_a_run_that_waits_can_be_stopped(broker: Broker) -> None:
    sink = sink_of(broker)
    sink.open(None)
    broker.stop()
    sink.write(rows(0, 1))
    threading.Timer(0.2, sink.interrupt).start()
    with pytest.raises(InputError, match="stopped while it waited"):
        sink.commit()
    sink.close()
    broker.start()


def test_wrong_options_are_named(broker: Broker) -> None:
    with pytest.raises(OptionError, match="is a pattern: leave out"):
        sink_of(broker, topic="out/+")
    text = "CREATE STREAM s (k STRING) FROM http ();\nCREATE QUERY q AS SELECT k FROM s [ROWS 3] INTO mqtt (broker = 'h:1', topic = 't', {});"
    with pytest.raises(CqlErrors, match="mode 'upsert' needs option key"):
        bind(text.format("mode = 'upsert'"))
    with pytest.raises(CqlErrors, match="unknown option format of mqtt"):
        bind(text.format("format = 'raw'"))


def test_reserved_characters_of_a_key_are_written_as_codes() -> None:
    assert topic_level("a/b+c#d%é") == "a%2Fb%2Bc%23d%25é"

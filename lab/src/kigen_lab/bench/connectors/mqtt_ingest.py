"""Measures MQTT ingest: messages with QoS 1 through mosquitto, as fast as one publisher sends them."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.connectors.progress import Processed, wait_for
from kigen_lab.servers.mosquitto import Mosquitto

_APP = """
CREATE STREAM rooms (room STRING, temp DOUBLE)
  FROM mqtt (broker = '{broker}', topic = 'rooms/+/temp', columns = 'room = topic[1]');
CREATE QUERY hot AS ISTREAM(SELECT room, temp FROM rooms [NOW] WHERE temp > 20);
"""


def _publish(port: int, count: int) -> None:
    """Publishes messages as fast as the broker takes them. Runs in a process of its own."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(1_000)
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", port)
    client.loop_start()
    last = None
    for number in range(count):
        last = client.publish(f"rooms/r{number % 50}/temp", b'{"temp": %d}' % (number % 40), qos=1)
    if last is not None:
        last.wait_for_publish(120)
    client.disconnect()
    client.loop_stop()


def mqtt_rate(messages: int, folder: Path) -> float:
    """Returns the messages per second of one run."""
    (folder / "broker").mkdir(parents=True)
    broker = Mosquitto(folder / "broker")
    try:
        with KigenCommand(_APP.format(broker=broker.address), folder, serve=True) as run:
            processed = Processed(*run.served())
            while not processed():  # until the run has subscribed and counts
                run.require()
                broker.publish(("rooms/early/temp", '{"temp": 1}'))
                time.sleep(0.2)
            time.sleep(1.0)
            before = processed()
            publisher = multiprocessing.get_context("spawn").Process(target=_publish, args=(broker.port, messages))
            publisher.start()
            first = wait_for(processed, before + messages // 10, run.require)  # a process needs a while to start
            last = wait_for(processed, before + messages, run.require)
            publisher.join()
            return messages * 0.9 / (last - first)
    finally:
        broker.stop()

"""Prints the alarms that the app writes to the topic `alarms`, once they are committed: alarms.py BROKERS."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime

from confluent_kafka import Consumer


def print_alarms(brokers: str, ended: threading.Event) -> None:
    """Prints each alarm with its age: the time since the vehicle reported it."""
    settings = {"bootstrap.servers": brokers, "group.id": "alarms", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 10, "log_level": 0})
    consumer.subscribe(["alarms"])
    while not ended.is_set():
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        alarm = json.loads(message.value())
        age = datetime.now(UTC) - datetime.fromisoformat(alarm["at"].replace("Z", "+00:00"))
        print(
            f"alarm: vehicle {alarm['id']} drives {alarm['speed']} in the {alarm['lane']} lane "
            f"(committed to Kafka {age.total_seconds() * 1000:.0f} ms after it was reported)",
            flush=True,
        )
    consumer.close()


if __name__ == "__main__":
    print_alarms(sys.argv[1], threading.Event())

"""Sends vehicles to the topic `vehicles` until it is stopped: produce.py BROKERS [SECONDS]. Creates the topics."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from vehicles import LANES, vehicles

TOPICS = ("vehicles", "alarms")


def create_topics(brokers: str) -> None:
    """Creates the topics of the demo, with two partitions each."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.create_topics([NewTopic(topic, 2, 1) for topic in TOPICS]).values():
        future.result(30)


def produce(brokers: str, seconds: float) -> None:
    """Sends for so many seconds."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
    for row in vehicles(seconds):
        producer.produce("vehicles", json.dumps(row).encode(), partition=LANES.index(row["lane"]) % 2)
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    create_topics(sys.argv[1])
    produce(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1e9)

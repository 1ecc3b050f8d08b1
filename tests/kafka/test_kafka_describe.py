"""DESCRIBE of a topic: the statement is made from its first messages."""

from __future__ import annotations

from kafka.conftest import MockCluster

from kigen.cli.describe_command import proposals


def test_a_topic_with_json_messages(cluster: MockCluster) -> None:
    for number in range(5):
        cluster.send("described", {"id": number, "speed": 1.5, "at": f"2026-01-01T00:00:0{number}Z"})
    cluster.flush()
    statement = proposals(f"kafka (brokers = '{cluster.brokers}', topic = 'described', format = 'json')")
    assert "5 records of topic described" in statement
    assert "CREATE STREAM described (\n  id BIGINT,\n  speed DOUBLE,\n  at TIMESTAMP\n) TIMESTAMP BY at\n" in statement

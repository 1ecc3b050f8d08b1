"""Names the parts of `kigen bench connectors`, what each one measures, and the figures to reach."""

from __future__ import annotations

from dataclasses import dataclass

JSON, ARROW, LATENCY, HTTP, MQTT, POSTGRES = "kafka-json", "kafka-arrow", "kafka-latency", "http", "mqtt", "postgres"
PARTS = (JSON, ARROW, LATENCY, HTTP, MQTT, POSTGRES)
WHAT = {
    JSON: "Kafka to Kafka, json, selection: tuples/s",
    ARROW: "Kafka to Kafka, arrow, selection: tuples/s",
    LATENCY: "Kafka to Kafka, latency in ms",
    HTTP: "HTTP, JSON lines in batches of 500: tuples/s",
    MQTT: "MQTT, QoS 1: messages/s",
    POSTGRES: "PostgreSQL, current: changes/s",
}


@dataclass(frozen=True)
class Target:
    """A figure to reach: at least, or for latencies at most."""

    figure: str
    value: float
    least: bool = True

    def met(self, value: float) -> bool:
        return value >= self.value if self.least else value <= self.value


TARGETS: dict[str, tuple[Target, ...]] = {
    JSON: (Target("per_s", 80_000),),
    ARROW: (Target("per_s", 1_000_000),),
    LATENCY: (
        Target("read_committed p50", 80, least=False),
        Target("read_committed p99", 200, least=False),
        Target("read_uncommitted p50", 25, least=False),
        Target("read_uncommitted p99", 100, least=False),
    ),
    HTTP: (Target("per_s", 50_000),),
    MQTT: (Target("per_s", 5_000),),
    POSTGRES: (Target("per_s", 20_000),),
}

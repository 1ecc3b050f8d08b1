"""Servers of other projects, started for benchmarks and tests: a Kafka broker, mosquitto, PostgreSQL."""

"""Knows which libraries a part of `kigen bench connectors` needs."""

from __future__ import annotations

from importlib.util import find_spec

from kigen_lab.bench.connectors.parts import ARROW, HTTP, JSON, LATENCY, MQTT, POSTGRES

_NEEDS = {
    JSON: ("confluent_kafka", "fastavro"),
    ARROW: ("confluent_kafka", "fastavro"),
    LATENCY: ("confluent_kafka", "fastavro"),
    HTTP: ("starlette", "uvicorn"),
    MQTT: ("paho", "starlette", "uvicorn"),
    POSTGRES: ("psycopg", "starlette", "uvicorn"),
    "bytewax": ("bytewax", "orjson"),
}


class LibraryMissing(ImportError):
    """A part needs a library that is not installed."""


def require_libraries(part: str) -> None:
    """Raises LibraryMissing if a part (or `bytewax`) cannot run here."""
    missing = [name for name in _NEEDS[part] if find_spec(name) is None]
    if missing:
        raise LibraryMissing(f"not installed: {', '.join(missing)}; run: pip install 'kigen-lab[connectors]'")

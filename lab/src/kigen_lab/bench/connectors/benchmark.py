"""Measures the connectors: what each one carries, and how long a tuple takes from Kafka to Kafka.

Contestants of one measurement take turns, so that a machine that becomes slower or faster does not favour one of them.
Each turn starts the command anew, with its own topics, queue and checkpoint. A turn's start does not count. What cannot
be measured here (no broker, no server, no bytewax) is named, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.connectors.libraries import LibraryMissing, require_libraries
from kigen_lab.bench.connectors.parts import ARROW, HTTP, JSON, LATENCY, MQTT, PARTS, POSTGRES
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.workspace import workspace
from kigen_lab.servers.errors import ServerMissing

Figures = dict[str, float]


@dataclass(frozen=True)
class ConnectorSettings:
    """What `kigen bench connectors` measures."""

    parts: tuple[str, ...] = PARTS
    turns: int = 3
    json_rows: int = 2_000_000
    arrow_rows: int = 20_000_000
    early_rows: int = 2_000
    rate: int = 1_000  # tuples per second, for latencies
    warm_s: float = 10.0
    seconds: float = 20.0
    mqtt_messages: int = 100_000
    keys: int = 10_000
    postgres_rate: int = 60_000  # tuples per second that are offered
    out: Path = Path("out/bench")


@dataclass
class _Found:
    """The figures of all turns, by part and contestant."""

    turns: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # part or contestant -> why

    def add(self, part: str, contestant: str, figures: Figures) -> None:
        self.turns.setdefault((part, contestant), []).append(figures)


class ConnectorBench:
    """Runs the parts, in turns."""

    def __init__(self, settings: ConnectorSettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say
        self._found, self._numbers = _Found(), count(1)

    @property
    def steps(self) -> int:
        settings = self.settings
        return settings.turns * sum(3 if part == JSON else 1 for part in settings.parts)

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        machine, found = describe_machine(), self._found
        with workspace(self.settings.out) as work:
            for turn in range(self.settings.turns):
                for part in self.settings.parts:
                    if part in found.missing:
                        continue
                    try:
                        self._part(part, turn, work, advance)
                    except (LibraryMissing, ServerMissing) as error:
                        found.missing[part] = str(error)
        return {
            "bench": "connectors",
            "machine": machine,
            "settings": {**asdict(self.settings), "out": None},
            "missing": found.missing,
            "cells": [cell_of(part, name, turns) for (part, name), turns in found.turns.items()],
        }

    def _part(self, part: str, turn: int, work: Path, advance: Callable[[], None]) -> None:
        contestants = self._contestants(part, work)
        names = list(contestants)
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            self._say(f"{part}: {name}, turn {turn + 1}")
            self._found.add(part, name, contestants[name]())
            advance()

    def _contestants(self, part: str, work: Path) -> dict[str, Callable[[], Figures]]:
        """Returns what a part measures: by name, a call that makes one turn. Raises LibraryMissing."""
        require_libraries(part)
        folder = work / f"{part}-{next(self._numbers)}"
        if part == HTTP:
            return {"kigen": lambda: self._http(folder)}
        if part == MQTT:
            return {"kigen": lambda: self._mqtt(folder)}
        if part == POSTGRES:
            return {"kigen": lambda: self._postgres(folder)}
        if part == LATENCY:
            return {"kigen": lambda: self._latency(folder)}
        if part == ARROW:
            return {"kigen": lambda: self._kigen("arrow", folder)}
        found: dict[str, Callable[[], Figures]] = {"kigen": lambda: self._kigen("json", folder)}
        try:
            require_libraries("bytewax")
        except LibraryMissing as error:
            self._found.missing["bytewax"] = str(error)
            return found
        found["bytewax, 1 process"] = lambda: self._bytewax(1, folder)
        found["bytewax, 2 processes"] = lambda: self._bytewax(2, folder)
        return found

    def _kigen(self, form: str, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.kafka_throughput import kigen_rate
        from kigen_lab.servers.kafka_broker import running_broker

        settings, is_json = self.settings, form == "json"
        rows = settings.json_rows if is_json else settings.arrow_rows
        early = settings.early_rows if is_json else 10 * settings.early_rows
        with running_broker(folder / "broker") as broker:
            return {"per_s": kigen_rate(broker, "cars", form, rows, early, folder / "kigen")}

    def _bytewax(self, processes: int, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.kafka_throughput import bytewax_rate
        from kigen_lab.servers.kafka_broker import running_broker

        settings = self.settings
        with running_broker(folder / f"broker-{processes}") as broker:
            rows, early = settings.json_rows, settings.early_rows
            return {"per_s": bytewax_rate(broker, "cars", processes, rows, early, folder / "bytewax")}

    def _latency(self, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.kafka_latency import latencies_ms
        from kigen_lab.servers.kafka_broker import running_broker

        settings = self.settings
        with running_broker(folder / "broker") as broker:
            found = latencies_ms(broker, "cars", settings.rate, settings.warm_s, settings.seconds, folder / "kigen")
        return {f"{level} {name}": value for level, quantiles in found.items() for name, value in quantiles.items()}

    def _http(self, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.http_ingest import http_rate

        return {"per_s": http_rate(self.settings.seconds, folder)}

    def _mqtt(self, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.mqtt_ingest import mqtt_rate

        return {"per_s": mqtt_rate(self.settings.mqtt_messages, folder)}

    def _postgres(self, folder: Path) -> Figures:
        from kigen_lab.bench.connectors.postgres_changes import postgres_rate

        settings = self.settings
        rate, keys = postgres_rate(settings.postgres_rate, settings.keys, settings.seconds, folder)
        return {"per_s": rate, "keys": keys}


def cell_of(part: str, contestant: str, turns: list[Figures]) -> dict[str, Any]:
    """Returns the medians of the turns, and the turns."""
    medians = {name: median(turn[name] for turn in turns) for name in turns[0]}
    return {"part": part, "contestant": contestant, "medians": medians, "turns": turns}

"""Measures latency from a tuple's scheduled arrival to the commit of its results: Kigen in rounds, Kigen with a
micro-batch per round, and plain Structured Streaming, in turns on the same schedule.

Each side runs in its own process with its own Spark. The first seconds of each run do not count. `done` is the share of
the tuples of the counted time that had results within it: below 1, a side falls behind, and its latencies grow with the
length of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kigen.spark.sink.metrics import Histogram
from kigen_lab.bench.latency.schedule import Load
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.worker import Contestant, ContestantFailed
from kigen_lab.bench.workspace import workspace

ROUNDS, BATCHES, PLAIN = "kigen in rounds", "kigen --epoch 0", "plain"
CONTESTANTS = (ROUNDS, BATCHES, PLAIN)
NAMED = {"rounds": ROUNDS, "epoch-0": BATCHES, "plain": PLAIN}  # as in --contestant
PERCENTS = (50, 95, 99, 99.9)


@dataclass(frozen=True)
class LatencySettings:
    """What `kigen bench latency` measures."""

    queries: tuple[int, ...] = (1, 20)
    rates: tuple[int, ...] = (100, 1_000, 10_000)
    durabilities: tuple[str, ...] = ("power", "process")
    contestants: tuple[str, ...] = CONTESTANTS
    turns: int = 2
    warm_s: float = 5.0
    seconds: float = 20.0
    out: Path = Path("out/bench")


class LatencyBench:
    """Runs every contestant under every load."""

    def __init__(self, settings: LatencySettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say
        self._cells = [
            (Load(queries, rate), durability)
            for durability in settings.durabilities
            for queries in settings.queries
            for rate in settings.rates
        ]

    @property
    def steps(self) -> int:
        return len(self._cells) * len(self.settings.contestants) * self.settings.turns

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        settings, machine = self.settings, describe_machine()
        answers: dict[tuple[Load, str, str], list[dict[str, Any]]] = {}
        failed: list[str] = []
        with (
            workspace(settings.out) as work,
            Contestant("kigen_lab.bench.lifetimes.kigen_side", work / "kigen.log") as kigen,
            Contestant("kigen_lab.bench.lifetimes.plain_side", work / "plain.log") as plain,
        ):
            for load, durability in self._cells:
                for turn in range(settings.turns):
                    for place in range(len(settings.contestants)):
                        name = settings.contestants[(place + turn) % len(settings.contestants)]
                        what = f"{load.queries} queries, {load.rate:,}/s, {durability}: {name}, turn {turn + 1}"
                        self._say(what)
                        try:
                            answer = self._ask(plain if name == PLAIN else kigen, name, load, durability, work)
                            answers.setdefault((load, durability, name), []).append(answer)
                        except ContestantFailed as error:  # the others are measured all the same
                            failed.append(f"{what}: {error}")
                        advance()
        return {
            "bench": "latency",
            "machine": machine,
            "settings": {**asdict(settings), "out": None},
            "cells": [cell_of(*key, found) for key, found in answers.items()],
            "failed": failed,
        }

    def _ask(self, side: Contestant, name: str, load: Load, durability: str, work: Path) -> dict[str, Any]:
        settings = self.settings
        request: dict[str, Any] = {
            "queries": load.queries,
            "rate": load.rate,
            "folder": str(work / "latency"),
            "durability": durability,
            "warm_s": settings.warm_s,
            "seconds": settings.seconds,
        }
        if name != PLAIN:
            request["epoch_s"] = 0.0 if name == BATCHES else None
        return side.ask(do="latency", **request)


def cell_of(load: Load, durability: str, name: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the quantiles over all turns, the range of p50 and p99 over them, and the histogram."""
    turns = [Histogram.from_json(answer["histogram"]) for answer in answers]
    total = Histogram(sum((turn.counts for turn in turns), Counter()))
    counted = sum(total.counts.values())
    expected = load.queries * load.rate_of_each * sum(answer["seconds"] for answer in answers)
    return {
        "queries": load.queries,
        "rate": load.rate,
        "durability": durability,
        "contestant": name,
        "latency_ms": total.quantiles_ms(*PERCENTS),
        "turns_ms": [turn.quantiles_ms(*PERCENTS) for turn in turns],
        "tuples": counted,
        "done": round(counted / expected, 4),
        "histogram_ms": [[round(low, 3), round(high, 3), count] for low, high, count in total.bounds_ms()],
    }

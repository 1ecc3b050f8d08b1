"""Measures the CPU time that admission spends on a round, without Spark, on a virtual clock.

Each query has a stream of its own. In every round of 10 ms, a fixed number of streams have one new tuple, and a tuple
of each of them expires. The other streams had one tuple at the start. A real lane decides the rounds, with its round
log, and a worker reports what every task took and when its next tuple expires. Two CPU times are measured per round:
the decision with its line in the log, and the messages to and from the worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kigen.plan import bind
from kigen.schedule import DEFAULT_POLICY, PolicySettings
from kigen.spark.admission.lane import Lane, RoundDone, deal
from kigen.spark.admission.offsets import initial_offset
from kigen.spark.rounds import wire
from kigen.spark.rounds.round import Round
from kigen.spark.spec import RunSpec
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.workspace import workspace

ROUND_US, RANGE_US = 10_000, 1_000_000
START_US = 1_000_000_000_000
TARGET_QUERIES, TARGET_MS = 300, 2.0
_TASK_US, _FIXED_US, _RECORDING_US = (
    20.0,
    1_000.0,
    500.0,
)  # what a worker reports: little, so that every round takes all that waits
_WARM_ROUNDS = 120  # until tuples expire


@dataclass(frozen=True)
class AdmissionSettings:
    """What `kigen bench admission` measures. A `news` of 0 stands for all streams."""

    queries: tuple[int, ...] = (20, 100, 300)
    news: tuple[int, ...] = (1, 10, 0)
    rounds: int = 1_000
    trials: int = 3
    policy: str = DEFAULT_POLICY
    out: Path = Path("out/bench")

    @property
    def cells(self) -> list[tuple[int, int]]:
        found = [(queries, min(news or queries, queries)) for queries in self.queries for news in self.news]
        return list(dict.fromkeys(found))


QUICK = AdmissionSettings(rounds=300, trials=1)


def run_admission_bench(
    settings: AdmissionSettings, say: Callable[[str], None], advance: Callable[[], None]
) -> dict[str, Any]:
    """Measures all cells, in turns."""
    found: dict[tuple[int, int], list[dict[str, float]]] = {cell: [] for cell in settings.cells}
    machine = describe_machine()
    with workspace(settings.out) as folder:
        for trial in range(settings.trials):
            for queries, news in settings.cells:
                say(f"trial {trial + 1} of {settings.trials}: {queries} queries, {news} streams with news")
                checkpoint = folder / f"{trial}-{queries}-{news}"
                found[queries, news].append(measure_rounds(queries, news, settings.rounds, checkpoint, settings.policy))
                advance()
    cells = [
        {"queries": queries, "news": news, **{name: median(t[name] for t in trials) for name in trials[0]}}
        for (queries, news), trials in found.items()
    ]
    return {
        "machine": machine,
        "settings": {"rounds": settings.rounds, "trials": settings.trials, "policy": settings.policy},
        "cells": cells,
        "figure": _figure(cells),
    }


def _figure(cells: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the figure to reach, if its cell was measured: the one with the most streams with news."""
    most = [cell for cell in cells if cell["queries"] == cell["news"] == TARGET_QUERIES]
    if not most:
        return None
    reached = most[0]["round_ms"]
    return {"queries": TARGET_QUERIES, "target_ms": TARGET_MS, "reached_ms": reached, "met": reached <= TARGET_MS}


def measure_rounds(
    queries: int, news: int, rounds: int, checkpoint: Path, policy: str = DEFAULT_POLICY
) -> dict[str, float]:
    """Returns CPU times per round in milliseconds: medians, and the 99th percentile of the whole."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    lane = lane_of(queries, news, checkpoint, policy)
    decided, told = [], []
    ours = theirs = _Messages()
    done = RoundDone()
    for number in range(_WARM_ROUNDS + rounds):
        wire.send(theirs, done.__dict__)
        now_us = START_US + number * ROUND_US + 1
        began = time.thread_time_ns()
        done = RoundDone(**wire.receive(ours)[0])
        parsed = time.thread_time_ns()
        found = lane.next(done, now_us, False)
        after = time.thread_time_ns()
        assert found is not None, "a stream has news"
        wire.send_encoded(ours, found.text)
        ended = time.thread_time_ns()
        done = _work(Round.from_json(wire.receive(theirs)[0]), now_us, news)
        if number >= _WARM_ROUNDS:
            decided.append((after - parsed) / 1e6)
            told.append((parsed - began + ended - after) / 1e6)
    lane.close()
    whole = np.array(decided) + np.array(told)
    return {
        "decision_ms": median(decided),
        "messages_ms": median(told),
        "round_ms": float(np.median(whole)),
        "p99_ms": float(np.percentile(whole, 99)),
    }


class _Messages(Connection):
    """Keeps the message that was sent last. So what the system does with messages is not measured."""

    def __init__(self) -> None:
        self._last = b""

    def __del__(self) -> None:
        """Has no file to close."""

    def send_bytes(self, buf: Any, offset: int = 0, size: int | None = None) -> None:
        self._last = bytes(buf)

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        return self._last


def lane_of(queries: int, news: int, checkpoint: Path, policy: str = DEFAULT_POLICY) -> Lane:
    """Returns a lane with all queries, at the start of its first epoch."""
    text = "".join(
        f"CREATE STREAM s{i} (v BIGINT) FROM synthetic (rate = {1e6 / ROUND_US if i < news else 1e-4}, "
        f"seed = {i}, v = 'sequence');\n"
        f"CREATE QUERY q{i} DEADLINE {100 * (1 + i % 5)} MILLISECONDS AS "
        f"SELECT v FROM s{i} [RANGE {RANGE_US} MICROSECONDS];\n"
        for i in range(queries)
    )
    spec = RunSpec(
        app=bind(text),
        run_id="bench",
        checkpoint=str(checkpoint),
        scratch=str(checkpoint),
        draining=False,
        policy=policy,
        settings=PolicySettings(fixed_us=_FIXED_US, may_drop=False),
        syncs=False,
        lanes=1,
    )
    offset = initial_offset(spec.sources(START_US), spec.tasks, START_US)
    lane = Lane(spec, 0, deal(spec, 1, offset.logs)[0], offset.queues, START_US)
    lane.begin_epoch(1)
    return lane


def _work(entry: Round, now_us: int, news: int) -> RoundDone:
    """Returns what a worker reports of a round. Tuples expire at multiples of a round's length, like they arrive."""
    first_us = START_US + RANGE_US
    next_us = max(first_us, (now_us // ROUND_US + 1) * ROUND_US)
    events_us: dict[str, int | None] = {}
    for task, given in entry.taken.items():
        is_news = int(given["ranges"][0]["stream"][1:]) < news
        events_us[task] = next_us if is_news else first_us if now_us < first_us else None
    tasks_us = dict.fromkeys(entry.taken, _TASK_US)
    return RoundDone(entry.number, int(_FIXED_US + sum(tasks_us.values())), tasks_us, events_us, _RECORDING_US)

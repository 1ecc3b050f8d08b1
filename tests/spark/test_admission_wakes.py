"""Admission asks only what may have changed, and decides the same as if it asked everything in every round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from spark.test_scheduling import SECOND, Listed

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.lifetimes.blocks import FOREVER
from kigen.plan import bind
from kigen.plan.logical import App, Connector
from kigen.plan.logical.app import LINK
from kigen.plan.tasks import Task, extract_tasks
from kigen.schedule import POLICY_NAMES, PolicySettings
from kigen.spark.admission.live_queues import Cursors
from kigen.spark.admission.offsets import initial_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.admission.wake_times import WakeTimes
from kigen.spark.scratch import Committed

DELAY = 700


class Delayed(Listed):
    """Tuples travel for a while, and the source cannot say when the next one comes: it is polled in every round."""

    polls = 0

    def arrived_by(self, now_us: int) -> int:
        self.polls += 1
        return super().arrived_by(now_us - DELAY)

    def complete_us(self, now_us: int) -> int:
        return now_us - DELAY


class Foreseen(Delayed):
    """The same tuples, and the source knows when the next one comes."""

    def next_arrival_us(self, known: int, now_us: int) -> int:
        return int(self.times[known]) + DELAY if known < len(self.times) else FOREVER

    def completes_at_us(self, watermark_us: int) -> int:
        return watermark_us + DELAY


class Calling(Delayed):
    """The same tuples, and the source calls when the next one comes."""

    def call_on_news(self, call: Callable[[], None]) -> bool:
        return True

    def completes_at_us(self, watermark_us: int) -> int:
        return watermark_us + DELAY


class AtOnce(Delayed):
    """Tuples are there when they arrive."""

    def arrived_by(self, now_us: int) -> int:
        return super().arrived_by(now_us + DELAY)

    def complete_us(self, now_us: int) -> int:
        return now_us


class Ahead(AtOnce):
    """The same tuples, and the source knows some of them long before, mostly."""

    def next_arrival_us(self, known: int, now_us: int) -> int:
        return int(self.times[known]) if known < len(self.times) else FOREVER

    def completes_at_us(self, watermark_us: int) -> int:
        return watermark_us

    def foreseen_us(self, known: int) -> Times:
        return self.times[known : known + known % 4]


def random_app(rng: np.random.Generator) -> App:
    clauses = {
        s: rng.choice(["", "BUFFER 5", "SHED ABOVE 60 PER SECOND", "LATENESS 1 SECONDS"], p=[0.5, 0.2, 0.15, 0.15])
        for s in "abc"
    }
    streams = "".join(
        f"CREATE STREAM {s} (v BIGINT) FROM synthetic (rate = 1, v = 'sequence') {c};\n" for s, c in clauses.items()
    )
    firm = rng.choice(["", "FIRM"])
    return bind(
        streams
        + "CREATE QUERY one AS SELECT v FROM a [ROWS 5];\n"
        + f"CREATE QUERY two DEADLINE 1 SECONDS {firm} AS SELECT v FROM b [RANGE 2 SECONDS];\n"
        + "CREATE QUERY both DEADLINE 3 SECONDS AS SELECT a.v FROM a [RANGE 1 SECONDS], c [RANGE 1 SECONDS];\n"
        + "CREATE QUERY far AS SELECT v FROM c [RANGE 9 SECONDS];\n"
    )


class Run:
    """One of two runs that must decide the same."""

    def __init__(self, kind: type[Delayed], times: dict[str, list[int]], setup: dict[str, Any]) -> None:
        self.sources: dict[str, LiveSource] = {name: kind(at) for name, at in times.items()}
        self.setup = setup
        self.queues: dict[str, Cursors] = initial_offset(dict(self.sources), setup["tasks"], 0).queues
        self.seq = 0
        self.restart()

    def restart(self) -> None:
        s = self.setup
        self.scheduling = Scheduling(
            s["app"], s["tasks"], self.sources, self.queues, s["policy"], s["at_most"], None, s["tick_us"]
        )
        self.scheduling.call_on_news(lambda: None)

    def round(self, now_us: int, events: dict[str, int | None], closing: bool = False) -> Any:
        committed = Committed(self.seq, now_us, events)
        self.scheduling.completed(self.seq, now_us, committed)
        after = {task: {s: dict(at) for s, at in streams.items()} for task, streams in self.queues.items()}
        taken = self.scheduling.next(self.seq + 1, now_us, after, committed, closing)
        if taken:
            self.queues, self.seq = after, self.seq + 1
        else:
            assert after == self.queues
        return {name: (mine.encoded(later=True), mine.arrivals.tolist()) for name, mine in taken.items()}


def sending(tasks: tuple[Task, ...], names: set[str]) -> tuple[Task, ...]:
    return tuple(
        replace(task, queries=tuple(replace(query, into=Connector(LINK)) for query in task.queries))
        if task.name in names
        else task
        for task in tasks
    )


@pytest.mark.parametrize(("kind", "asked"), [(Foreseen, Delayed), (Calling, Delayed), (Ahead, AtOnce)])
@pytest.mark.parametrize("seed", range(40))
def test_decides_the_same_as_a_full_scan(seed: int, kind: type[Delayed], asked: type[Delayed]) -> None:
    rng = np.random.default_rng(seed)
    app = random_app(rng)
    tasks = extract_tasks(app)
    ticks = rng.random() < 0.4
    tasks = sending(tasks, {task.name for task in tasks if ticks and rng.random() < 0.5})
    times = {s: np.sort(rng.integers(0, 4 * SECOND, rng.choice([0, 3, 40, 300]))).tolist() for s in "abc"}
    setup = {
        "app": app,
        "tasks": tasks,
        "policy": (str(rng.choice(POLICY_NAMES)), PolicySettings(fixed_us=20_000.0)),
        "at_most": int(rng.choice([7, 50, 10**6])),
        "tick_us": 200_000 if ticks else None,
    }
    full, quick = Run(asked, times, setup), Run(kind, times, setup)
    now, events = 0, dict[str, int | None]()
    step = int(rng.choice([15_000, 60_000, 400_000]))
    while now < 6 * SECOND:
        idle_us = quick.scheduling.idle_until_us(now, quick.queues, events)
        is_told = quick.scheduling.foresees_arrivals and not quick.scheduling.awaits_watermarks
        if kind is Calling:
            calls = [at + DELAY for arrivals in times.values() for at in arrivals if at + DELAY > now]
            idle_us = min([*calls, *([] if idle_us is None else [idle_us])], default=None)
        later = now + int(rng.integers(1, step))
        if is_told and (idle_us is None or idle_us > later):
            assert quick.round(later, events) == {}, f"idle until {idle_us}, but not at {later}"
            assert full.round(later, events) == {}
        now = later if idle_us is None else max(now + 1, min(later, idle_us))
        if rng.random() < 0.03:
            full.restart()
            quick.restart()
        if rng.random() < 0.5:
            task = str(rng.choice([t.name for t in tasks]))
            events = {**events, task: None if rng.random() < 0.1 else now + int(rng.integers(-SECOND // 2, SECOND))}
        decided = full.round(now, events)
        assert quick.round(now, events) == decided, f"at {now}"
        assert quick.queues == full.queues
    for now in range(7 * SECOND, 60 * SECOND, SECOND):
        assert quick.round(now, events, closing=True) == full.round(now, events, closing=True)
    assert all(state["ended"] for queue in quick.queues.values() for state in queue.values())


def test_only_streams_with_something_new_are_polled() -> None:
    text = "".join(
        f"CREATE STREAM s{i} (v BIGINT) FROM synthetic (rate = 1, v = 'sequence');\n"
        f"CREATE QUERY q{i} AS SELECT v FROM s{i} [ROWS 5];\n"
        for i in range(50)
    )
    app = bind(text)
    setup = {"app": app, "tasks": extract_tasks(app), "policy": ("all", PolicySettings()), "at_most": 10**6}
    times = {f"s{i}": [10 * SECOND + i * SECOND] for i in range(50)}
    run = Run(Foreseen, times, {**setup, "tick_us": None})
    for now in range(0, 60 * SECOND + DELAY, SECOND // 2):
        run.round(now + DELAY, {})
    polls = [source.polls for source in run.sources.values() if isinstance(source, Delayed)]
    assert max(polls) == 2, "when the run starts, and when the tuple arrives"


def test_idle_until_the_next_arrival_the_next_event_or_for_ever() -> None:
    app = bind(
        "CREATE STREAM a (v BIGINT) FROM synthetic (rate = 1, v = 'sequence') LATENESS 1 SECONDS;\n"
        "CREATE QUERY q AS SELECT v FROM a [RANGE 1 SECONDS];"
    )
    setup = {"app": app, "tasks": extract_tasks(app), "policy": ("all", PolicySettings()), "at_most": 10**6}
    run = Run(Foreseen, {"a": [0, 5 * SECOND, 9 * SECOND]}, {**setup, "tick_us": None})
    assert run.round(DELAY, {})
    assert run.scheduling.foresees_arrivals
    assert run.scheduling.idle_until_us(DELAY, run.queues, {}) == 5 * SECOND + DELAY, "the second tuple"
    events: dict[str, int | None] = {"task0": SECOND}
    assert run.scheduling.idle_until_us(DELAY, run.queues, events) == 2 * SECOND + DELAY, "LATENESS holds time back"
    assert run.round(2 * SECOND + DELAY - 1, events) == {}
    assert run.round(2 * SECOND + DELAY, events)
    assert run.scheduling.idle_until_us(3 * SECOND, run.queues, {"task0": None}) == 5 * SECOND + DELAY
    blind = Run(Delayed, {"a": [0, 5 * SECOND]}, {**setup, "tick_us": None})
    assert blind.round(DELAY, {})
    assert blind.scheduling.idle_until_us(DELAY, blind.queues, events) is None
    assert not blind.scheduling.foresees_arrivals


def test_wake_times_forget_what_was_changed() -> None:
    wakes = WakeTimes()
    for at in range(1000):
        wakes.set(1, 10_000 - at)
        wakes.set(2, 20_000 + at)
    assert wakes.earliest_us() == 9_001
    assert wakes.take_due(9_000) == []
    assert wakes.take_due(30_000) == [1, 2]
    assert wakes.earliest_us() is None
    wakes.set(3, 5)
    wakes.clear(3)
    assert wakes.take_due(10) == []

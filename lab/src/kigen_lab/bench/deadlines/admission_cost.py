"""Measures what admission costs per trigger, with many queries and many waiting tuples.

There are 300 queries with a live stream each and 1,000 waiting tuples per query. Each tuple is a basic batch of its
own, because arrivals lie further apart than the slots in which arrivals are reported to a policy. Two CPU times are
measured: all work of the reader between two batches (cursors, new arrivals, the decision, the offset as JSON), and the
policy's decision alone. For rounds, a stream has 10 tuples per second, so that a round of 10 ms finds something new in
about 30 of 300 streams.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

import numpy as np

from kigen.connectors import LiveSource, open_source
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen.schedule import Completion, PolicySettings, ScheduledTask, make_policy
from kigen.spark.admission.offsets import initial_offset, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.scratch import Committed

QUERIES, WAITING = 300, 1000
_EVERY_US = 400_000  # time between triggers
_ROUND_US = 10_000  # time between rounds
_AT_MOST = 4_000_000


def measure_admission(
    policy: str, queries: int = QUERIES, waiting: int = WAITING, triggers: int = 50
) -> dict[str, Any]:
    """Returns medians in milliseconds over `triggers` batches."""
    whole, decision = _decisions(policy, queries, "rate = 100", 10_000 * waiting, _EVERY_US, triggers)
    _, rounds = _decisions(policy, queries, "rate = 10, arrivals = 'poisson'", 0, _ROUND_US, 4 * triggers)
    medians = {
        "policy_ms": measure_decision(policy, queries, waiting),
        "decision_ms": 1000 * median(decision),
        "ms": 1000 * median(whole),
        "round_ms": 1000 * median(rounds),
    }
    return {"policy": policy, "queries": queries, **medians}


def _decisions(
    policy: str, queries: int, options: str, now_us: int, every_us: int, triggers: int
) -> tuple[list[float], list[float]]:
    """Returns the CPU seconds of all work of the reader, and of the decision alone, per batch."""
    text = "".join(
        f"CREATE STREAM s{i} (v BIGINT) FROM synthetic ({options}, seed = {i}, v = 'sequence');\n"
        f"CREATE QUERY q{i} DEADLINE {1 + i % 5} SECONDS AS SELECT v FROM s{i} [ROWS 5];\n"
        for i in range(queries)
    )
    app = bind(text)
    tasks = extract_tasks(app)
    sources = {s.name: open_source(s, ".", False, 0) for s in app.streams}
    live = {name: source for name, source in sources.items() if isinstance(source, LiveSource)}
    offset = initial_offset(dict(sources), tasks, 0)
    scheduling = Scheduling(app, tasks, live, offset.queues, (policy, PolicySettings(may_drop=False)), _AT_MOST)
    whole, decision = [], []
    for trigger in range(triggers + 1):
        began = time.thread_time()
        queues = {task: {stream: dict(at) for stream, at in streams.items()} for task, streams in offset.queues.items()}
        copied = time.thread_time()
        scheduling.completed(offset.seq, now_us, Committed())
        taken = scheduling.next(offset.seq + 1, now_us, queues, Committed(offset.seq, now_us, {}), False)
        decided = time.thread_time()
        offset = next_offset(offset, {}, 0, now_us, (queues, taken))
        json.dumps(offset.to_json())
        if trigger:  # the first one gets everything that waits at once
            whole.append(time.thread_time() - began)
            decision.append(decided - copied)
        now_us += every_us
    return whole, decision


def measure_decision(name: str, queries: int = QUERIES, batches: int = WAITING) -> float:
    """Returns the median milliseconds per decision of a policy alone, with that many basic batches
    waiting per query.
    """
    tasks = [ScheduledTask(f"q{i}", 1e6 * (1 + i % 30), False, 50.0) for i in range(queries)]
    policy = make_policy(name, tasks, PolicySettings(phi_us=20_000.0, fixed_us=150_000.0))
    owners, now_us = np.tile(np.arange(queries), batches), batches * 20_000.0
    policy.arrived_many(owners, np.full(len(owners), 3), np.repeat(np.arange(batches) * 20_000.0, queries))
    taken = []
    for _ in range(1 if name == "all" else 12):  # `all` leaves nothing for a second decision
        began = time.thread_time()
        decision = policy.next(now_us)
        taken.append(time.thread_time() - began)
        policy.completed(Completion(now_us, 400_000.0, decision.admit))
        policy.arrived_many(np.arange(queries), np.full(queries, 3), np.full(queries, now_us))
    return 1000 * median(taken)

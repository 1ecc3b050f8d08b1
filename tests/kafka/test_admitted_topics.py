"""Runs admission, reading and the kernel on the mock cluster, without Spark: all rows once, replays, silence, restarts."""

from __future__ import annotations

import copy
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from kigen.connectors import Range, SourceRequest
from kigen.connectors.kafka.source import KafkaSource
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen.schedule import PolicySettings
from kigen.spark.admission.offsets import Offset, initial_offset, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.scratch import Committed

APP = """
CREATE STREAM s (id BIGINT, at TIMESTAMP) TIMESTAMP BY at {clauses} FROM kafka (brokers = '{brokers}', topic = '{topic}');
CREATE QUERY q AS ISTREAM(SELECT id FROM s [NOW]);
CREATE QUERY w DEADLINE 1 SECONDS FIRM AS SELECT id FROM s [RANGE 2 SECONDS];
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


class Run:
    """A run whose offsets, and kernels, outlive the process: `restart` opens everything else anew."""

    def __init__(self, brokers: str, topic: str, clauses: str = "") -> None:
        self._app = bind(APP.format(brokers=brokers, topic=topic, clauses=clauses))
        self.tasks = extract_tasks(self._app)
        self._kernels = {task.name: TaskRuntime(task, self._app) for task in self.tasks}
        self.lines: dict[str, list[dict[str, Any]]] = {"q": [], "w": []}
        self._events: dict[str, int | None] = {}
        self.inputs: list[dict[str, Any]] = []
        self._source = KafkaSource(SourceRequest(self._app.streams[0], ".", False, None, None))
        self._offset = initial_offset({"s": self._source}, self.tasks, time.time_ns() // 1000)
        self._schedule()

    def restart(self) -> None:
        self._source = KafkaSource(SourceRequest(self._app.streams[0], ".", False, None, None))
        self._offset = Offset.from_json(json.loads(json.dumps(self._offset.to_json())))
        self._schedule()

    def _schedule(self) -> None:
        queues = copy.deepcopy(self._offset.queues)
        policy = "all", PolicySettings(may_drop=False)
        self._scheduling = Scheduling(self._app, self.tasks, {"s": self._source}, queues, policy, 1000)

    def step(self) -> bool:
        """Runs one batch, if one is due."""
        now_us, queues = time.time_ns() // 1000, copy.deepcopy(self._offset.queues)
        committed = Committed(self._offset.seq, now_us, self._events)
        self._scheduling.completed(self._offset.seq, now_us, committed)
        taken = self._scheduling.next(self._offset.seq + 1, now_us, queues, committed, False)
        after = next_offset(self._offset, {}, 1, now_us, (queues, taken))
        if after is self._offset:
            return False
        self._offset = after
        for task, mine in json.loads(json.dumps(after.taken)).items():
            self.inputs.append(mine)
            for piece in map(Range.from_json, mine["ranges"]):
                rows = self._source.read(piece)
                given = StreamInput([rows.table], piece.progress_us, piece.ended, partitions=rows.partitions)
                result = self._kernels[task].step({"s": given})
                self._events[task] = result.next_event_us
                for query, table in result.outputs.items():
                    self.lines[query] += table.to_pylist()
        return True

    def until(self, done: Any, within_s: float = 120.0) -> None:
        until = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < until, f"{ {q: len(rows) for q, rows in self.lines.items()} }"
            if not self.step():
                time.sleep(0.005)

    def ids(self, query: str) -> list[int]:
        return sorted(row["c0"] for row in self.lines[query])


def send(cluster: Any, topic: str, first: int, end: int, partitions: int = 4) -> None:
    for n in range(first, end):
        cluster.send(topic, {"id": n, "at": (START + timedelta(milliseconds=10 * n)).isoformat()}, n % partitions)
    cluster.flush()


def test_every_row_once_over_restarts_and_silence_releases_the_rest(cluster: Any) -> None:
    send(cluster, "admitted", 0, 300)
    run = Run(cluster.brokers, "admitted", "IDLE 300 MILLISECONDS")
    run.until(lambda: len(run.lines["q"]) >= 250)
    run.restart()
    send(cluster, "admitted", 300, 600)
    run.until(lambda: len(run.lines["q"]) >= 500)
    run.restart()
    run.until(lambda: len(run.lines["q"]) >= 600)
    assert run.ids("q") == list(range(600))
    run.until(lambda: len(run.lines["w"]) >= 600)
    assert run.ids("w") == list(range(600)), "time goes on while all are silent, so all die"
    births = [row["_from"] for row in run.lines["w"]]
    assert all(row["_to"] == row["_from"] + 2_000_000 for row in run.lines["w"])
    assert len(births) == 600


def test_an_empty_partition_holds_the_watermark_up_without_idle(cluster: Any) -> None:
    send(cluster, "held", 0, 40, partitions=3)
    run = Run(cluster.brokers, "held")
    run.until(lambda: bool(run.inputs))
    for _ in range(30):
        run.step()
        time.sleep(0.01)
    assert not run.lines["q"]
    cluster.send("held", {"id": 40, "at": (START + timedelta(seconds=3)).isoformat()}, 3)
    cluster.flush()
    run.until(lambda: len(run.lines["q"]) >= 37)
    assert run.ids("q") == list(range(37)), "three partitions end at 37, 38 and 39"

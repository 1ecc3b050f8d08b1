"""Decides the rounds of one lane: a policy of its own over the queues of the lane's tasks, and its positions in logs.

A lane is a processor. It has its own sources, cursors and policy, so lanes share nothing but the clock. Invariant: a
round is in the round log before it is handed out, and the cursors are those after the last round of the log. Cost: one
decision of the policy per round, and a line in the log.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.connectors import LiveSource, Range
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.plan.estimates import DEFAULT_RATE, declared_rates
from kigen.plan.tasks import Task
from kigen.schedule.slices import ADMITTED_NAMES
from kigen.spark.admission.live_queues import Cursors, TaskInput, task_of
from kigen.spark.admission.offsets import LaneStart, LogPosition, next_budget, take_log_ranges
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.admission.slice_scheduling import SliceScheduling
from kigen.spark.rounds.round import LoggedRound, Round, advance_cursors
from kigen.spark.rounds.round_log import RoundLog
from kigen.spark.scratch import Committed
from kigen.spark.spec import RunSpec

_SHORT_WAIT_S, _SILENT_WAIT_S = 0.001, 0.01  # between two looks at sources that do not know their next arrival
_TASK_US, _TUPLE_US = 20_000.0, 20.0  # guesses of a task's own work per second, and of its work per tuple
_LONG_WAIT_S = 0.1  # a run that stops is noticed this soon


@dataclass(frozen=True)
class RoundDone:
    """What a worker reports with its next question: how long the last round took it, and when time changes results."""

    number: int = 0  # 0: no round yet
    elapsed_us: int = 0
    task_us: dict[str, float] = field(default_factory=dict)  # time spent on each task of the round
    events_us: dict[str, int | None] = field(default_factory=dict)  # task -> when the passing of time changes a result
    recording_us: float = 0.0  # how long the sink needs to record a round


class Lane:
    """Admission of one lane over many epochs."""

    def __init__(
        self, spec: RunSpec, place: int, start: LaneStart, queues: dict[str, Cursors], started_us: int
    ) -> None:
        self._spec, self.place, self.tasks = spec, place, tuple(t for t in spec.tasks if t.name in start["tasks"])
        self._adopted, self.had_tasks = list(start["adopted"]), bool(start["tasks"])
        self.work_us = dict.fromkeys(start["tasks"], 0.0)  # time that each task took in this epoch
        self._logs: dict[str, LogPosition] = {name: {**at} for name, at in start["logs"].items()}
        self.queues: dict[str, Cursors] = {
            queue: {stream: dict(cursor) for stream, cursor in cursors.items()}
            for queue, cursors in queues.items()
            if task_of(queue) in start["tasks"]
        }
        self._sources = spec.sources(started_us, {s for task in self.tasks for s in task.streams})
        self._scheduling: Scheduling | None = None
        self._log: RoundLog | None = None
        self.logged: list[bytes] = []  # the rounds of this epoch as JSON: no objects that garbage collection visits
        self.last: LoggedRound | None = None  # the newest one
        self.epoch_rows = 0  # tuples that this epoch has read
        self._log_rows = self._log_began_us = 0
        self.news = threading.Event()  # set when something may be due before the end of a wait

    @property
    def start(self) -> LaneStart:
        """Where the lane stands now, for the offset of the next epoch."""
        logs: dict[str, LogPosition] = {name: {**at} for name, at in self._logs.items()}
        return {"tasks": [task.name for task in self.tasks], "logs": logs, "adopted": self._adopted}

    def restart(self, started_us: int) -> None:
        """Lets the live streams begin at another time. Only before the first round."""
        assert not self.logged, "streams begin before the first round"
        self._sources = self._spec.sources(started_us, {s for task in self.tasks for s in task.streams})

    def begin_epoch(self, epoch: int) -> None:
        """Opens the log of an epoch, and goes to where an earlier process came in it."""
        if self._log is not None:
            self._log.close()
        self._log = RoundLog(self._spec.checkpoint, epoch, self.place, self._spec.syncs)
        self.logged, self.last, self.epoch_rows, self._adopted = [], None, 0, []
        self.work_us = dict.fromkeys(self.work_us, 0.0)
        for entry in self._log.before:
            self.pass_by(entry)
            self._add(LoggedRound.of(entry))

    def pass_by(self, entry: Round) -> None:
        """Moves the cursors over a round that was decided earlier."""
        assert self._scheduling is None, "the policy knows the queues only from its first decision on"
        advance_cursors(self.queues, entry.taken)
        for piece in entry.ranges:
            position = self._logs[piece["stream"]]
            position["pos"], position["ended"] = piece["end"], piece["ended"]
            position["ts"] = position["ts"] if piece["last_ts_us"] is None else piece["last_ts_us"]

    @property
    def over(self) -> bool:
        """Whether all streams of the lane have ended for all its tasks."""
        return not self._waits_for_logs and all(
            at["ended"] for cursors in self.queues.values() for at in cursors.values()
        )

    @property
    def _waits_for_logs(self) -> bool:
        """Whether a log has more to read. A table that changes never ends, and nothing waits for its next version."""
        tables = {stream.name for stream in self._spec.app.streams if stream.changes}
        return any(not at["ended"] for name, at in self._logs.items() if name not in tables or not _has_begun(at))

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended for this lane."""
        return self.last is not None and self.last.last

    def next(self, done: RoundDone, now_us: int, closing: bool) -> LoggedRound | None:
        """Decides the next round; None: nothing is due."""
        for task, took_us in done.task_us.items():
            self.work_us[task] += took_us
        taken = self._live(done, now_us, closing) if self.queues else {}
        ranges = self._log_ranges(now_us, closing)
        if not taken and not ranges:
            return None
        texts = {queue: given.encoded(later=task_of(queue) != queue) for queue, given in taken.items()}
        text = Round(len(self.logged) + 1, now_us, [piece.to_json() for piece in ranges]).encoded(texts)
        read = [*ranges, *[piece for given in taken.values() for piece in given.ranges]]
        return self._admit(LoggedRound(text, now_us, sum([piece.rows or 0 for piece in read]), False, {}))

    def end(self, now_us: int, moves: dict[str, int] | None = None) -> LoggedRound:
        """Ends the epoch. The tasks in `moves` go on in other lanes."""
        return self._admit(LoggedRound.of(Round(len(self.logged) + 1, now_us, last=True, moves=moves or {})))

    @property
    def can_reopen(self) -> bool:
        """Whether the lane's sources can be opened again at no cost. Others would leave connections behind."""
        return all(isinstance(source, SyntheticSource) and source.live for source in self._sources.values())

    def costs(self) -> dict[str, Any] | None:
        """Returns what the policy has learnt of costs."""
        return None if self._scheduling is None else self._scheduling.costs()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _admit(self, found: LoggedRound) -> LoggedRound:
        assert self._log is not None
        self._log.append(found.text)
        self._add(found)
        return found

    def _add(self, found: LoggedRound) -> None:
        self.logged.append(found.text)
        self.last = found
        self.epoch_rows += found.rows

    def _live(self, done: RoundDone, now_us: int, closing: bool) -> dict[str, TaskInput]:
        scheduling = self._policy
        committed = Committed(done.number, now_us, done.events_us, done.elapsed_us, done.task_us, done.recording_us)
        scheduling.completed(done.number, now_us, committed)
        return scheduling.next(len(self.logged) + 1, now_us, self.queues, committed, closing)

    def _log_ranges(self, now_us: int, closing: bool) -> list[Range]:
        logs = {name: source for name, source in self._sources.items() if name in self._logs}
        if not logs:
            return []
        spec, took_us = self._spec, now_us - self._log_began_us
        budget = next_budget(self._log_rows, took_us, spec.batch_rows, spec.largest_rows, spec.shortest_us)
        ranges = take_log_ranges(logs, self._logs, budget, closing)
        if ranges:
            self._log_rows, self._log_began_us = sum(piece.rows or 0 for piece in ranges), now_us
        return ranges

    @property
    def _policy(self) -> Scheduling:
        if self._scheduling is None:
            spec, costs = self._spec, costs_file(self._spec.checkpoint, self.place)
            live: dict[str, LiveSource] = {
                n: s for n, s in self._sources.items() if isinstance(s, LiveSource) and s.live
            }
            tick = None if spec.links is None else spec.tick_us
            policy = (spec.policy, spec.settings)
            if spec.policy in ADMITTED_NAMES:
                self._scheduling = SliceScheduling(
                    spec.app, self.tasks, live, self.queues, policy, spec.largest_rows, spec.slices, costs, tick
                )
            else:
                self._scheduling = Scheduling(
                    spec.app, self.tasks, live, self.queues, policy, spec.largest_rows, costs, tick
                )
            self._scheduling.call_on_news(self.news.set)
        return self._scheduling

    def can_pause(self, now_us: int, pause_us: float) -> bool:
        """Whether no deadline is missed because the lane pauses for so long."""
        return self._scheduling is None or self._scheduling.can_pause(now_us, pause_us)

    def wait_s(self, now_us: int) -> float:
        """Returns how long to wait before the next look, if no source calls before (`news`).

        Sources that cannot call and do not know their next arrival are looked at every millisecond, and less often
        after a silence.
        """
        scheduling = self._scheduling
        if scheduling is None or self._waits_for_logs:
            return _SHORT_WAIT_S
        until_us = scheduling.idle_until_us(now_us, self.queues)
        longest_s = _LONG_WAIT_S
        if not scheduling.foresees_arrivals or scheduling.awaits_watermarks:
            silent_us = now_us - (0 if self.last is None else self.last.admitted_us)
            longest_s = min(_SILENT_WAIT_S, max(_SHORT_WAIT_S, silent_us / 1e6 / 50))
        known_s = longest_s if until_us is None else max(0.0, (until_us - now_us) / 1e6)
        return min(longest_s, max(known_s, _SHORT_WAIT_S if known_s == 0.0 else 0.0))

    def report(self) -> dict[str, Any]:
        return {} if self._scheduling is None else self._scheduling.report()


def deal(spec: RunSpec, lanes: int, logs: dict[str, LogPosition]) -> list[LaneStart]:
    """Deals the tasks to lanes: the most work per second first, each to the lane with the least so far.

    Of equal work, the shortest deadlines go first: a lane that has them all would miss most of them (decision 025).
    """
    rates = declared_rates(spec.app.streams)
    work_us = {task.name: _work_us(task, rates) for task in spec.tasks}
    load = [0.0] * lanes
    dealt: list[list[str]] = [[] for _ in range(lanes)]
    deadlines_us = {task.name: math.inf if task.deadline_us is None else task.deadline_us for task in spec.tasks}
    for name in sorted(work_us, key=lambda task: (-work_us[task], deadlines_us[task])):
        place = load.index(min(load))
        load[place] += work_us[name]
        dealt[place].append(name)
    streams = {task.name: set(task.streams) for task in spec.tasks}
    return [
        {
            "tasks": names,
            "logs": {s: {**at} for s, at in logs.items() if any(s in streams[name] for name in names)},
            "adopted": [],
        }
        for names in dealt
    ]


def _work_us(task: Task, rates: dict[str, float]) -> float:
    """Guesses how many microseconds of work a task has per second, from declared rates and COST."""
    tuples = sum(rates.get(stream, DEFAULT_RATE) for stream in task.streams)
    return _TASK_US + tuples * (_TUPLE_US + sum(query.cost_us or 0 for query in task.queries))


def _has_begun(at: LogPosition) -> bool:
    return bool(at["pos"].get("index"))


def costs_file(checkpoint: str, lane: int) -> Path:
    return Path(checkpoint) / f"costs-{lane}.json"


def now_us() -> int:
    return time.time_ns() // 1000

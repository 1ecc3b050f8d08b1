"""Makes the rounds of a lane in one epoch: asks for a round, steps its tasks, delivers the results, asks again.

A worker that starts, or takes over from one that died, first makes the logged rounds again: those that the sink has
without results and at full speed, the others as new ones. Invariant: results of a round leave after its decision is in
the round log, and the state that Spark gets at the end is that after the last round. Cost: some 0.3 ms per round beside
the kernel's own work.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kigen.spark.operator.lane import moved_task
from kigen.spark.operator.lane.lane_state import LaneState, StateRow
from kigen.spark.operator.outbox import Encoders
from kigen.spark.operator.range_reader import RangeReader
from kigen.spark.operator.task_step import ONE_AT_A_TIME, USER_ERRORS, ResultRow, TaskStep
from kigen.spark.rounds import wire
from kigen.spark.rounds.delivery import Delivery, DeliveryFailed
from kigen.spark.rounds.round import Round, contents
from kigen.spark.rounds.stretch import Stretch
from kigen.spark.spec import RunSpec

_STRETCHES: dict[tuple[str, int], Stretch] = {}  # (run, lane)


class LaneLost(RuntimeError):
    """Another attempt of the lane has taken over, or a process that it needs is gone."""


@dataclass(frozen=True)
class EpochResult:
    """What Spark gets at the end of a lane's epoch."""

    rows: list[ResultRow]
    state: StateRow | None  # None: an error has ended the epoch


def run_epoch(
    spec: RunSpec, payload: dict[str, Any], state: StateRow | None, encoders: Encoders | None, attempt: int
) -> EpochResult:
    """Runs the epoch of a lane, beginning with the state after the last one. Raises LaneLost."""
    key = wire.read_key(Path(spec.checkpoint) / wire.KEY_FILE)
    about = {"epoch": payload["epoch"], "lane": payload["lane"], "attempt": attempt}
    assert spec.sink is not None
    try:
        with wire.connect(payload["admission"], key) as admission:
            wire.send(admission, {**about, "tasks": payload["tasks"]})
            found, logged = wire.receive(admission)
            if "started_us" not in found:
                raise LaneLost(f"lane {payload['lane'] + 1} is run by another attempt")
            payload = {**payload, "started_us": found["started_us"]}
            rounds = [Round.from_json(json.loads(text)) for text in logged]
            with Delivery(spec.sink, key, about) as delivery:
                loop = LaneLoop(spec, payload, LaneState.of(state), encoders, delivery)
                try:
                    return _make_rounds(loop, rounds, admission, delivery, payload)
                except ConnectionError:
                    raise  # a process is gone: no fault of the input
                except (DeliveryFailed, *USER_ERRORS) as error:
                    with suppress(OSError):
                        wire.send(admission, {"failed": True})
                    if isinstance(error, DeliveryFailed):
                        return EpochResult([], None)  # the sink knows why
                    return EpochResult([loop.error_row(error)], None)
    except (EOFError, ConnectionError, FileNotFoundError) as error:
        raise LaneLost(f"lane {payload['lane'] + 1}: a process of the run is gone ({error})") from error


def _make_rounds(
    loop: LaneLoop, logged: list[Round], admission: Connection, delivery: Delivery, payload: dict[str, Any]
) -> EpochResult:
    loop.replay(logged)
    while not loop.ended:
        wire.send(admission, loop.done())
        entry, _ = wire.receive(admission)
        if "number" not in entry:
            raise LaneLost(f"lane {payload['lane'] + 1} is run by another attempt")
        if "started_us" in entry:  # streams of a new run have begun when all lanes were ready for it
            loop.start_streams(entry.pop("started_us"))
        loop.round(Round.from_json(entry))
    delivery.finish()
    rows = loop.save()
    result = EpochResult(rows, loop.state.to_state(payload["epoch"]))
    loop.keep()
    delivery.end_epoch(rows, payload["lanes"])
    return result


class LaneLoop:
    """The tasks of a lane during one epoch."""

    def __init__(
        self,
        spec: RunSpec,
        payload: dict[str, Any],
        state: LaneState,
        encoders: Encoders | None,
        delivery: Delivery,
    ) -> None:
        self._epoch, self._lane = int(payload["epoch"]), int(payload["lane"])
        self.state, self._delivery = state, delivery
        with ONE_AT_A_TIME:
            self._reader = reader = RangeReader(spec, payload["started_us"])
        for task in payload.get("adopted", ()):
            state.manifests[task] = moved_task.take_over(spec.checkpoint, self._epoch - 1, task)
        self._spec, self._moves = spec, list[str]()
        self._tasks = [task for task in spec.tasks if task.name in payload["tasks"]]
        for gone in set(state.manifests) - {task.name for task in self._tasks}:  # a change of the app has dropped it
            del state.manifests[gone]
        with ONE_AT_A_TIME:
            self._steps = {
                t.name: TaskStep(spec, t.name, 0, state.manifest(t.name), reader, encoders) for t in self._tasks
            }
        self._stepping = next(iter(self._steps.values()))
        self._done: dict[str, Any] = {}
        self._stretch = _STRETCHES.setdefault((spec.run_id, self._lane), Stretch())
        self.ended = False
        for step in self._steps.values():
            step.watch.begin(self._epoch, {})

    def replay(self, rounds: list[Round]) -> None:
        """Makes the logged rounds again. The sink has the results of the first ones."""
        known = [entry for entry in rounds if entry.number <= self._delivery.has]
        again: dict[str, list[dict[str, Any]]] = {}
        for entry in known:
            for task, mine in contents(entry.ranges, entry.taken, self._tasks).items():
                again.setdefault(task, []).append({**mine, "admitted_us": entry.admitted_us})
            self._end(entry)
        for task, payloads in again.items():
            self._stepping = self._steps[task]
            with ONE_AT_A_TIME:
                self._stepping.replay(self._epoch, payloads)
        for entry in rounds[len(known) :]:
            self.round(entry)
        with ONE_AT_A_TIME:
            self._done = {"events_us": {name: step.next_event_us for name, step in self._steps.items()}}

    def start_streams(self, started_us: int) -> None:
        self._reader.started_us = started_us

    def round(self, entry: Round) -> None:
        """Makes one round and delivers its results."""
        began = time.perf_counter_ns()
        rows: list[ResultRow] = []
        worked_us: dict[str, float] = {}
        events: dict[str, int | None] = {}
        for task, mine in contents(entry.ranges, entry.taken, self._tasks).items():
            before = time.thread_time_ns()
            self._stepping = step = self._steps[task]
            with ONE_AT_A_TIME:
                rows += step.step(self._epoch, {**mine, "admitted_us": entry.admitted_us})
                events[task] = step.next_event_us
            worked_us[task] = (time.thread_time_ns() - before) / 1000
        stepped_us = (time.perf_counter_ns() - began) / 1000
        task_us = self._stretch.stretched(worked_us, stepped_us)
        self._delivery.deliver(entry.number, rows)
        elapsed_us = (time.perf_counter_ns() - began) // 1000
        self._done = {
            "number": entry.number,
            "elapsed_us": elapsed_us,
            "task_us": task_us,
            "events_us": events,
            "recording_us": self._delivery.recording_us,
        }
        self._end(entry)

    def _end(self, entry: Round) -> None:
        if entry.last:
            self.ended, self._moves = True, list(entry.moves)

    def done(self) -> dict[str, Any]:
        return self._done

    def save(self) -> list[ResultRow]:
        """Saves the kernels and returns the rows that end the epoch for Spark's sink."""
        rows: list[ResultRow] = []
        for step in self._steps.values():
            self._stepping = step
            with ONE_AT_A_TIME:
                rows += step.save()
            if step.task in self._moves:  # it goes on in another lane
                manifest = self.state.manifests.pop(step.task)
                moved_task.hand_over(self._spec.checkpoint, self._epoch, step.task, manifest, self._spec.syncs)
        about = json.dumps({"lane": self._lane, "rounds": self._delivery.sent})
        return [*rows, (self._tasks[0].name, self._epoch, None, "lane", None, about)]

    def keep(self) -> None:
        for step in self._steps.values():
            with ONE_AT_A_TIME:
                step.keep()

    def error_row(self, error: Exception) -> ResultRow:
        return self._stepping.error_row(self._epoch, error)

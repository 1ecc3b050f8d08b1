"""Fits an offset to the tasks of a changed app: tasks that are gone leave it, added ones get their recorded start.

Invariant: the result depends only on the offset and on what the change recorded, so a restart before the next commit
gives the same. A task that stays keeps its cursors and its lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kigen.spark.admission.live_queues import Cursors, queue_of, task_of
from kigen.spark.admission.offsets import LaneStart, LogPosition, Offset
from kigen.spark.spec import RunSpec

Json = dict[str, Any]


def fitted(offset: Offset, spec: RunSpec) -> Offset:
    """Returns the offset for the tasks that the run has now; the same object if nothing differs."""
    if offset.lanes is not None:
        return offset  # lanes are fitted when they are opened
    queues = fitted_queues(offset.queues, spec)
    logs = _logs(offset.logs, spec, [task.name for task in spec.tasks], lambda stream: None)
    if queues == offset.queues and logs == offset.logs:
        return offset
    return replace(offset, queues=queues, logs=logs)


def fitted_queues(queues: dict[str, Cursors], spec: RunSpec) -> dict[str, Cursors]:
    """Returns the cursors of the tasks that the run has now."""
    found: dict[str, Cursors] = {}
    streams = {task.name: task.streams for task in spec.tasks}
    for queue, cursors in queues.items():
        mine = streams.get(task_of(queue), ())
        kept = {stream: dict(cursor) for stream, cursor in cursors.items() if stream in mine}
        if kept:
            found[queue] = kept
    for task, starts in spec.starts.items():
        cursors = {stream: start["cursor"] for stream, start in starts.items() if "cursor" in start}
        if task not in streams or task in queues or not cursors:
            continue
        for place in range(len(spec.slices[task].queries) if task in spec.slices else 1):
            found[queue_of(task, place)] = {stream: dict(cursor) for stream, cursor in cursors.items()}
    return found


def fitted_lanes(lanes: list[LaneStart], spec: RunSpec) -> list[LaneStart]:
    """Returns the lanes with the tasks that the run has now. An added task goes to the lane with the fewest tasks."""
    names = [task.name for task in spec.tasks]
    dealt = [[task for task in lane["tasks"] if task in names] for lane in lanes]
    for task in names:
        if not any(task in lane for lane in dealt):
            min(dealt, key=len).append(task)

    def elsewhere(stream: str) -> LogPosition | None:
        """Returns the furthest position of a lane in a log."""
        known = [lane["logs"][stream] for lane in lanes if stream in lane["logs"]]
        return max(known, key=lambda at: -1 if at["ts"] is None else at["ts"], default=None)

    return [
        {
            "tasks": tasks,
            "logs": _logs(lane["logs"], spec, tasks, elsewhere),
            "adopted": [task for task in lane["adopted"] if task in tasks],
        }
        for lane, tasks in zip(lanes, dealt, strict=True)
    ]


def _logs(
    logs: dict[str, LogPosition], spec: RunSpec, tasks: Iterable[str], elsewhere: Callable[[str], LogPosition | None]
) -> dict[str, LogPosition]:
    """Returns the positions in the logs that these tasks read."""
    streams = {task.name: task.streams for task in spec.tasks}
    read = {stream for task in tasks for stream in streams[task]}
    found: dict[str, LogPosition] = {name: {**at} for name, at in logs.items() if name in read}
    for task in tasks:
        for stream, start in spec.starts.get(task, {}).items():
            if "log" in start and stream in streams[task] and stream not in found:
                at = elsewhere(stream) or start["log"]
                found[stream] = {"pos": at["pos"], "ts": at["ts"], "ended": at["ended"]}
    return found

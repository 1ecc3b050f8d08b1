"""Reads from a checkpoint how far its run has come: the positions of all tasks after the last committed batch.

Invariant: reads files only and starts nothing. A checkpoint is settled if Spark has committed every batch and epoch
that it has planned; only then an app may change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen.spark.admission.live_queues import Cursors, task_of
from kigen.spark.admission.offsets import LogPosition, Offset
from kigen.spark.rounds import round_log
from kigen.spark.rounds.round import advance_cursors
from kigen.spark.sink.spark_files import COMMITS, FOLDER, OFFSETS


@dataclass(frozen=True)
class Stand:
    """How far a run has come."""

    seq: int
    started_us: int
    logs: dict[str, LogPosition]  # the furthest position of any task
    queues: dict[str, Cursors]

    def cursor(self, stream: str, tasks: Collection[str] = ()) -> dict[str, Any] | None:
        """Returns the cursor in a live stream that is the least of these tasks; the furthest of any task if none of
        them reads it; None if no task does."""
        known = [(queue, cursors[stream]) for queue, cursors in self.queues.items() if stream in cursors]
        theirs = [cursor for queue, cursor in known if task_of(queue) in tasks]
        if theirs:
            return min(theirs, key=_index)
        return max((cursor for _, cursor in known), key=_index, default=None)

    def ended(self, stream: str) -> bool:
        """Whether a log has ended for the tasks that read it."""
        return stream in self.logs and self.logs[stream]["ended"]

    @property
    def tasks(self) -> set[str]:
        return {task_of(queue) for queue in self.queues}


def _index(cursor: dict[str, Any]) -> int:
    return int(cursor["index"])


def is_settled(checkpoint: str | Path) -> bool:
    """Whether no batch and no round is planned that Spark has not committed."""
    committed = _last(checkpoint, COMMITS)
    if _last(checkpoint, OFFSETS) > committed:
        return False
    open_epochs = [epoch for epoch in round_log.epochs(checkpoint) if epoch > committed + 1]
    return not any(round_log.is_begun(checkpoint, epoch) for epoch in open_epochs)


def stand_of(checkpoint: str | Path) -> Stand | None:
    """Returns how far the run has come; None if it has committed nothing."""
    batch = _last(checkpoint, COMMITS)
    if batch < 0:
        return None
    lines = (Path(checkpoint) / FOLDER / OFFSETS / str(batch)).read_text(encoding="utf-8").splitlines()
    offset = Offset.from_json(json.loads(lines[-1]))
    queues = {queue: {s: dict(at) for s, at in cursors.items()} for queue, cursors in offset.queues.items()}
    if offset.lanes is None:
        return Stand(offset.seq, offset.started_us, offset.logs, queues)
    logs: dict[str, LogPosition] = {}
    for place, lane in enumerate(offset.lanes):
        mine: dict[str, LogPosition] = {stream: {**at} for stream, at in lane["logs"].items()}
        for entry in round_log.read(round_log.path_of(checkpoint, offset.seq, place))[0]:
            advance_cursors(queues, entry.taken)
            for piece in entry.ranges:
                at = mine[piece["stream"]]
                at["pos"], at["ended"] = piece["end"], piece["ended"]
                at["ts"] = at["ts"] if piece["last_ts_us"] is None else piece["last_ts_us"]
        for stream, at in mine.items():
            other = logs.get(stream)
            if other is None or (at["ts"] or 0) >= (other["ts"] or 0):
                logs[stream] = at
    return Stand(offset.seq, offset.started_us, logs, queues)


def _last(checkpoint: str | Path, log: str) -> int:
    folder = Path(checkpoint) / FOLDER / log
    return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1) if folder.is_dir() else -1

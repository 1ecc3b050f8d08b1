"""Knows up to where inputs may go: per stream, the offset before which no replay reads.

A step reports what the state before its epoch needs. The end of an epoch reports what the state after it needs; that
counts once Spark has committed the epoch. Invariant: what is needed never covers less than a restart would read.
"""

from __future__ import annotations

import json
from typing import Any

from kigen.spark.sink.replay_check import StepNotes
from kigen.spark.spec import RunSpec

Offsets = dict[str, int]  # stream -> offset


class NeededInputs:
    """What each task needs."""

    def __init__(self) -> None:
        self._tasks: dict[str, Offsets] = {}
        self._after: dict[str, Offsets] = {}  # after the last epoch

    def stepped(self, notes: StepNotes) -> None:
        """Takes in what steps report."""
        self._tasks |= {task: note["kept"] for task, note in notes if note["kept"]}

    def ended(self, rows: list[dict[str, Any]]) -> bool:
        """Takes in the rows at the end of an epoch, or of a batch. Spark has committed the one before.

        A task in several buckets needs what each of them needs. Returns whether they say anything.
        """
        self.committed()
        for row in rows:
            if row["kind"] == "needed":
                mine = self._after.setdefault(row["task"], {})
                for stream, offset in json.loads(row["note"]).items():
                    mine[stream] = min(offset, mine.get(stream, offset))
        return bool(self._after)

    def committed(self) -> bool:
        """Spark has committed the last epoch. Returns whether that is news."""
        after, self._after = self._after, {}
        for task, offsets in after.items():
            self._tasks[task] = {**self._tasks.get(task, {}), **offsets}
        return bool(after)

    def oldest(self, spec: RunSpec) -> Offsets:
        """Returns, per stream, the offset before which no replay reads. Leaves out streams that a task has not read."""
        readers: dict[str, list[str]] = {}
        for task in spec.tasks:
            for stream in task.streams:
                readers.setdefault(stream, []).append(task.name)
        known = {s: tasks for s, tasks in readers.items() if all(s in self._tasks.get(t, {}) for t in tasks)}
        return {s: min(self._tasks[t][s] for t in tasks) for s, tasks in known.items()}

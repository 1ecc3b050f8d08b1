"""Basic Task Collector: turns tuples of physical streams into basic tasks of queries, each with its deadline.

A basic task is one query on one tuple. A stream that several queries read is copied logically for each of them; the
streams of a query that reads several become one logical stream. Cost: one step per reader of the stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kigen.schedule.policy_interface import ScheduledTask


@dataclass(frozen=True, slots=True)
class BasicTasks:
    """`count` basic tasks of one query that arrived together."""

    task: int
    count: int
    arrival_us: float
    deadline_us: float  # absolute; infinite if the query has none


class BasicTaskCollector:
    """Knows which tasks read which stream."""

    def __init__(self, tasks: Sequence[ScheduledTask], readers: Mapping[str, Sequence[int]] | None = None) -> None:
        """`readers` maps a stream to its tasks; by default each task reads a stream of its own name."""
        self._relative = [math.inf if task.deadline_us is None else float(task.deadline_us) for task in tasks]
        self._readers = readers or {task.name: [index] for index, task in enumerate(tasks)}

    def deadline_us(self, task: int, arrival_us: float) -> float:
        return arrival_us + self._relative[task]

    def collect(self, stream: str, count: int, arrival_us: float) -> Iterator[BasicTasks]:
        """Yields the basic tasks of each reader of the stream."""
        for task in self._readers[stream]:
            yield BasicTasks(task, count, arrival_us, self.deadline_us(task, arrival_us))

"""The interface between the policies of a shared join and their drivers: arrivals and evictions in, units of work out.

The driver owns the buffers. It reports what arrived and what was evicted, asks for the next units, runs them, and
reports how long that took. A **unit** is a range of tuples of one stream and the slices to run on it. A policy reads no
clock, does no I/O and starts no thread.

Invariant: each slice of each tuple is returned at most once, in the order of windows, and never after the tuple's
eviction. What was returned counts as processed, even if the tuple is evicted while it runs. Work is measured in window
lengths, per tuple.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kigen.plan.shared_joins.window_hull import WindowHull
from kigen.schedule.slices.backlog import Backlog


@dataclass(slots=True)
class Unit:
    """Tuples first .. first + count - 1 of a stream run the slices of queries low + 1 .. high."""

    stream: int
    first: int
    count: int
    low: int
    high: int
    work: float


class SlicePolicy(ABC):
    """Decides which slices run next. `buffers` are the streams' sizes in tuples; None: unbounded, nothing is
    evicted.
    """

    name = ""

    def __init__(self, hull: WindowHull, buffers: Sequence[int | None]) -> None:
        self.hull = hull
        self.backlog = Backlog(hull.queries, buffers)

    def arrived(self, stream: int, count: int, level: int = 0) -> None:
        """Adds `count` tuples of a stream, after all earlier ones. `level` slices have already run on them (after a
        restart).
        """
        self.backlog.arrived(stream, count, level)

    def evicted(self, stream: int, count: int) -> list[int]:
        """Removes the oldest `count` tuples of a stream, which left its buffer.

        Returns how many tuples each query lost, in the order of windows.
        """
        dropped = [0] * self.hull.queries
        for level, tuples in self.backlog.evict(stream, count):
            for query in range(level, self.hull.queries):
                dropped[query] += tuples
        return dropped

    def next(self, now_us: float, budget: float = 0.0, costs: Sequence[float] | None = None) -> list[Unit]:
        """Returns units of at most `budget` work together, or one slice of one range if that is more. Empty if nothing
        waits.

        `costs` are the work of the slices of a tuple, if not their window lengths; the order does not depend on them.
        """
        costs = self.hull.work if costs is None else costs
        self.measure(now_us)
        units: list[Unit] = []
        while (id := self.pick()) is not None:
            level = self.backlog.level(id)
            stream, first, count = self.backlog.where(id)
            work = count * costs[level]
            if units and work > budget:
                break
            budget -= work
            self.backlog.raise_level(id, level + 1)
            last = units[-1] if units else None
            if last is not None and (last.stream, last.first, last.high) == (stream, first, level):
                units[-1] = Unit(stream, first, count, last.low, level + 1, last.work + work)
            else:
                units.append(Unit(stream, first, count, level, level + 1, work))
            if budget <= 0:
                break
        return units

    @abstractmethod
    def pick(self) -> int | None:
        """Returns the range whose next slice runs next."""

    def measure(self, now_us: float) -> None:  # noqa: B027, most policies have no period
        """Runs before each decision. A policy can evaluate the periods that have passed."""

    def completed(self, work: float, elapsed_us: float) -> None:  # noqa: B027, most policies need no speed
        """Takes in that `work` is done and took `elapsed_us`."""

    def report(self) -> dict[str, Any]:
        return {"policy": self.name}

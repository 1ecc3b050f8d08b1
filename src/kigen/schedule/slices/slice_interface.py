"""The interface between the policies of a shared join and their drivers: arrivals and evictions in, units of work out.

The driver owns the buffers. It reports what arrived and what was evicted, asks for the next units, runs them, and
reports how long that took. A **unit** is a range of tuples of one stream and the slices to run on it. A policy reads no
clock, does no I/O and starts no thread. Queries may have deadlines (`set_deadlines`): what they make due runs before
what the policy would pick (`kigen.schedule.slices.due_slices`).

Invariant: each slice of each tuple is returned at most once, in the order of windows, and never after the tuple's
eviction. What was returned counts as processed, even if the tuple is evicted while it runs. Work is measured in window
lengths, per tuple, or in what the driver says that slices cost. With `forward_only`, no slice goes back: once it has
run on a range, the older ranges of the stream that it has not run on are given up for it and for all later slices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kigen.plan.shared_joins.window_hull import WindowHull
from kigen.schedule.slices.backlog import Backlog
from kigen.schedule.slices.due_slices import DueSlices


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
    gains_by_short_rounds = True  # some windows are answered sooner, or more often, if rounds are short in overload

    def __init__(self, hull: WindowHull, buffers: Sequence[int | None]) -> None:
        self.hull = hull
        self.backlog = Backlog(hull.queries, buffers)
        self.costs: Sequence[float] = hull.work  # work of each slice per tuple, at the last decision
        self.forward_only = False
        self.given_up = [0] * hull.queries  # tuples that each query lost because a slice does not go back
        self.recording_us = 0.0  # from the end of a round until its results count as delivered
        self._due = DueSlices(())

    def set_deadlines(self, deadlines_us: Sequence[float | None]) -> None:
        """Sets the deadline of each slice's own queries; None: they have none."""
        self._due = DueSlices(deadlines_us)

    def arrived(self, stream: int, count: int, level: int = 0, at_us: float = 0.0) -> None:
        """Adds `count` tuples of a stream, after all earlier ones.

        `level` slices have already run on them (after a restart); all of them: they are done, or given up.
        """
        self.backlog.arrived(stream, count, level, at_us)

    def evicted(self, stream: int, count: int) -> list[int]:
        """Removes the oldest `count` tuples of a stream, which left its buffer.

        Returns how many tuples each query lost, in the order of windows.
        """
        dropped = [0] * self.hull.queries
        for level, tuples in self.backlog.evict(stream, count):
            for query in range(level, self.hull.queries):
                dropped[query] += tuples
        return dropped

    def next(
        self, now_us: float, budget: float = 0.0, costs: Sequence[float] | None = None, horizon_us: float = 0.0
    ) -> list[Unit]:
        """Returns units of at most `budget` work together, or one slice of one range if that is more. Empty if nothing
        waits.

        `costs` are the work of the slices of a tuple, if not their window lengths. With deadlines, work is in
        microseconds, and what would be late after `horizon_us` more goes first.
        """
        self.look(now_us, costs)
        ends_us = now_us + self.recording_us  # as if all that runs now ended that much later
        due = self._due.find(self.backlog, ends_us, self.costs, horizon_us)[::-1] if self._due.any else []
        units: list[Unit] = []
        while (id := self._first_due(due)) is not None or (id := self.pick()) is not None:
            level = self.backlog.level(id)
            stream, first, count = self.backlog.where(id)
            work = count * self.costs[level]
            if units and work > budget:
                break
            budget -= work
            if self.forward_only:
                self._give_up_before(id, level)
            self.backlog.raise_level(id, level + 1)
            last = units[-1] if units else None
            if last is not None and (last.stream, last.first, last.high) == (stream, first, level):
                units[-1] = Unit(stream, first, count, last.low, level + 1, last.work + work)
            else:
                units.append(Unit(stream, first, count, level, level + 1, work))
            if budget <= 0:
                break
        return units

    def look(self, now_us: float, costs: Sequence[float] | None = None) -> None:
        """Takes in the time and the costs, and sets the next order. To call it twice changes nothing."""
        self.costs = self.hull.work if costs is None else costs
        self.measure(now_us)

    def _first_due(self, due: list[tuple[int, int]]) -> int | None:
        """Returns the range that is due first. The first entry is the last one of the list."""
        while due:
            id, level = due[-1]
            if self.backlog.level(id) < level:
                return id
            due.pop()
        return None

    def _give_up_before(self, id: int, level: int) -> None:
        for reached, tuples in self.backlog.give_up_before(id, level):
            for query in range(reached, self.hull.queries):
                self.given_up[query] += tuples

    @abstractmethod
    def pick(self) -> int | None:
        """Returns the range whose next slice runs next."""

    def measure(self, now_us: float) -> None:  # noqa: B027, most policies have no period
        """Runs before each decision. A policy can evaluate the periods that have passed."""

    def completed(self, work: float, elapsed_us: float) -> None:  # noqa: B027, most policies need no speed
        """Takes in that `work` is done and took `elapsed_us`."""

    def report(self) -> dict[str, Any]:
        return {"policy": self.name}

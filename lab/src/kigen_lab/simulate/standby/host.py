"""A node process in virtual time: one processor that works off feeds in order. It counts tuples; only their number and
place matter.

The operator is a selection (what passes was drawn with the trial) or a RANGE window with one result a tuple; its need
is exact: nothing, or the oldest tuple alive. Cost: one event a feed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine.cuts import Cut
from kigen_lab.simulate.standby.machine.node import Node
from kigen_lab.simulate.standby.model import Drawn


@dataclass
class SimHost:
    node: Node
    drawn: Drawn
    input: str
    output: str
    cost_us: float
    windowed: bool
    through: int = 0
    worked: int = 0
    free_us: float = 0.0
    copies: deque[e.TakeCopy] = field(default_factory=deque)
    feeds: deque[e.Feed] = field(default_factory=deque)

    def start(self, feed: e.Feed, now_us: float) -> float:
        """When it will be done."""
        self.feeds.append(feed)
        self.free_us = max(self.free_us, now_us) + (feed.end - feed.first) * self.cost_us
        return self.free_us

    def finish(self) -> e.Produced:
        feed = self.feeds.popleft()
        count = feed.end - feed.first
        self.worked += count
        if feed.generation == self.node.replica.inputs.generation:
            self.through = feed.end
        results = 0
        if self.output and not feed.silent:
            results = int(self.drawn.passed[feed.end] - self.drawn.passed[feed.first])
        needed = int(self.drawn.alive_from[self.through - 1]) if self.windowed and self.through else self.through
        return e.Produced(feed.generation, self._at(self.through), Cut.of({self.output: results}), self._at(needed))

    def copied(self) -> e.Copied | None:
        """A copy that waited for the processor to be done."""
        if not self.copies or self.feeds:
            return None
        return e.Copied(self.copies.popleft().generation, self._at(self.through))

    def state_tuples(self) -> int:
        """What a copy holds of the window."""
        return self.through - int(self.drawn.alive_from[self.through - 1]) if self.windowed and self.through else 0

    def _at(self, offset: int) -> Cut:
        return Cut.of({self.input: offset})

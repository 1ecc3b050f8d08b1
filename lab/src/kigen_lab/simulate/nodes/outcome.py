"""Describes the result of a run of nodes: deliveries with their latencies, instances of tasks, and what ran when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

EXACT_US = 1e-3  # times are rounded sums: a deadline counts as missed only beyond this


@dataclass(frozen=True)
class Segment:
    """A time in which a node was busy with tuples of a parcel, in one operator of a task."""

    node: str
    task: str
    operator: str
    label: str
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Instance:
    """Tuples in a task: the absolute deadline is their creation plus the task's sub-deadline."""

    task: str
    label: str
    created_us: float
    deadline_us: float
    end_us: float

    @property
    def missed(self) -> bool:
        return self.end_us > self.deadline_us + EXACT_US


@dataclass(frozen=True)
class Delivery:
    """Results that arrived at the node where they are delivered."""

    output: str
    label: str
    count: int
    latency_us: float
    deadline_us: float
    at_us: float

    @property
    def missed(self) -> bool:
        return self.latency_us > self.deadline_us + EXACT_US


@dataclass(frozen=True)
class NodesOutcome:
    """Everything that a run gives."""

    deliveries: tuple[Delivery, ...]
    instances: tuple[Instance, ...]
    segments: tuple[Segment, ...]  # in order of time on each node; empty unless `record` was set

    def missed(self, outputs: Iterable[str] | None = None) -> tuple[int, int]:
        """Returns (late, all) tuples of these outputs."""
        wanted = None if outputs is None else set(outputs)
        counted = [d for d in self.deliveries if wanted is None or d.output in wanted]
        return sum(d.count for d in counted if d.missed), sum(d.count for d in counted)

    def worst_us(self) -> dict[str, float]:
        """Returns the longest latency of each output."""
        worst: dict[str, float] = {}
        for delivery in self.deliveries:
            worst[delivery.output] = max(delivery.latency_us, worst.get(delivery.output, 0.0))
        return worst


def joined(segments: Iterable[Segment], by_operator: bool = True) -> list[Segment]:
    """Joins neighbouring segments of the same parcel.

    With `by_operator` False, segments of one task are joined whatever their operators.
    """
    kept: list[Segment] = []
    for found in sorted(segments, key=lambda s: (s.node, s.start_us, s.end_us)):
        segment = (
            found if by_operator else Segment(found.node, found.task, "", found.label, found.start_us, found.end_us)
        )
        if kept and _same(kept[-1], segment) and abs(kept[-1].end_us - segment.start_us) <= EXACT_US:
            last = kept.pop()
            segment = Segment(last.node, last.task, last.operator, last.label, last.start_us, segment.end_us)
        kept.append(segment)
    return kept


def _same(a: Segment, b: Segment) -> bool:
    return (a.node, a.task, a.operator, a.label) == (b.node, b.task, b.operator, b.label)

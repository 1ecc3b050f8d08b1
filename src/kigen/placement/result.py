"""What a placement says: nodes of operators, ways of streams, sub-deadlines, tasks, loads, and how good the answer is.

Invariant: plain frozen data; nothing here is computed, so that it can be written as JSON, compared and handed to
simulator and nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PlacedTask:
    """What a node schedules: operators that run one after the other on a tuple, without a queue between them.
    `sub_deadline_us` counts from the creation of (tuple, task): the arrival of the tuple in the task's input."""

    name: str
    node: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]  # streams that feed it from outside
    outputs: tuple[str, ...]  # streams it gives to other tasks, other nodes, or sinks
    sub_deadline_us: float
    work_us: float  # of an activation, at this node's speed
    tuple_us: float  # of one input tuple at most: how long it can block others
    period_us: float | None = None


@dataclass(frozen=True)
class NodeLoad:
    """`cpu`: share of time with work (None without periods). `demand`: the largest, over time spans, of work due within
    it over its length: above 1 no order of work can meet all sub-deadlines."""

    cpu: float | None
    demand: float


@dataclass(frozen=True)
class LinkLoad:
    source: str
    target: str
    streams: tuple[str, ...]
    traffic: float  # bytes a second, or bytes of an activation where nothing is periodic
    used: float | None  # share of the bandwidth; None where it is unlimited or nothing is periodic


@dataclass(frozen=True)
class Placement:
    """`nodes`: operator -> node. `routes`: stream -> the links it takes, relays included, from where it is made
    outwards. `sub_deadlines_us`: (output, operator) -> its share of that output's deadline. `operator_us`: the least of
    them over outputs. `traffic` in bytes a second (bytes of an activation where nothing is periodic), `bound`: no
    placement with these sub-deadlines has less; `gap` between them. `spread`: the paper's objective. `holds`: the
    demand test of every node, blocking and jitter included, passed, and no path is longer than its deadline."""

    nodes: dict[str, str]
    routes: dict[str, tuple[tuple[str, str], ...]]
    sub_deadlines_us: dict[tuple[str, str], float]
    operator_us: dict[str, float]
    tasks: tuple[PlacedTask, ...]
    node_loads: dict[str, NodeLoad]
    link_loads: tuple[LinkLoad, ...]
    traffic: float
    bound: float
    spread: float
    holds: bool
    method: str
    slack: float  # the least, over time spans of all nodes, of 1 - demand
    notes: tuple[str, ...] = field(default=())  # what does not hold, and by how much

    @property
    def gap(self) -> float:
        """Of the traffic: 0 is proven best."""
        return 0.0 if self.traffic <= self.bound else (self.traffic - self.bound) / self.traffic

    def tasks_of(self, node: str) -> tuple[PlacedTask, ...]:
        return tuple(t for t in self.tasks if t.node == node)

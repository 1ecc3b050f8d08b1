"""Result of a placement: nodes of operators, routes of streams, sub-deadlines, tasks, loads, and the quality of the
answer.

Invariant: plain frozen data. Nothing here is computed, so that it can be written as JSON, compared, and given to the
simulator and to nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PlacedTask:
    """What a node schedules: operators that run one after the other on a tuple, without a queue between them.

    `sub_deadline_us` counts from the creation of (tuple, task): the arrival of the tuple in the task's input.
    """

    name: str
    node: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]  # streams from outside the task
    outputs: tuple[str, ...]  # streams for other tasks, other nodes or sinks
    sub_deadline_us: float
    work_us: float  # per activation, at this node's speed
    tuple_us: float  # upper limit per input tuple: how long the task can block others
    period_us: float | None = None


@dataclass(frozen=True)
class NodeLoad:
    """Load of a node.

    `cpu`: share of time with work (None without periods). `demand`: the maximum, over time spans, of the work due
    within a span divided by its length. Above 1, no order of work can meet all sub-deadlines.
    """

    cpu: float | None
    demand: float


@dataclass(frozen=True)
class LinkLoad:
    """Load of one direction of a link."""

    source: str
    target: str
    streams: tuple[str, ...]
    traffic: float  # bytes per second, or bytes per activation if nothing is periodic
    used: float | None  # share of the bandwidth; None if it is unlimited or nothing is periodic


@dataclass(frozen=True)
class Placement:
    """A placement, with its figures.

    - `nodes`: operator -> node.
    - `routes`: stream -> the links it takes, relays included, outwards from its origin.
    - `sub_deadlines_us`: (output, operator) -> its share of that output's deadline.
    - `operator_us`: operator -> the least of its shares over all outputs.
    - `traffic`: bytes per second (bytes per activation if nothing is periodic).
    - `bound`: no placement with these sub-deadlines has less traffic; `gap` is the distance.
    - `spread`: the paper's objective.
    - `holds`: every node passed the demand test, blocking and jitter included, and no path is longer than its deadline.
    """

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
    slack: float  # minimum of 1 - demand over all time spans of all nodes
    notes: tuple[str, ...] = field(default=())  # which requirements do not hold, and by how much

    @property
    def gap(self) -> float:
        """Distance from the bound as a share of the traffic. 0 is proven optimal."""
        return 0.0 if self.traffic <= self.bound else (self.traffic - self.bound) / self.traffic

    def tasks_of(self, node: str) -> tuple[PlacedTask, ...]:
        """Returns the tasks of a node."""
        return tuple(t for t in self.tasks if t.node == node)

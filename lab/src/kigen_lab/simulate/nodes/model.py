"""Describes a simulated set of nodes: tasks on nodes, links between nodes, and tuples that arrive.

A task is a chain of operators that runs on one node without interruption. A stream goes from the operator that makes it
to every task that reads it, over the hops of its route if that task is on another node. Everything here is frozen: a
run keeps its state elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One operator of a task."""

    operator: str
    cost_us: float  # per tuple, on a node of speed 1
    outs: tuple[str, ...]  # streams that the operator makes
    selectivity: float = 1.0


@dataclass(frozen=True)
class NodeTask:
    """A chain of operators on one node."""

    name: str
    node: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    deadline_us: float | None = None  # sub-deadline of the task, from the arrival of its tuples
    waits: bool = False  # waits for a parcel of the same job from each input; one run handles a tuple of each
    release_us: float | None = (
        None  # after birth; a sub-deadline does not begin earlier. None: it begins with the creation, as in the paper
    )


@dataclass(frozen=True)
class Wire:
    """A link in one direction: parcels go one after another at its bandwidth, then each takes the delay."""

    delay_us: float = 0.0
    bytes_per_s: float | None = None  # None: unlimited

    def sending_us(self, size_bytes: float) -> float:
        return 0.0 if self.bytes_per_s is None else 1e6 * size_bytes / self.bytes_per_s


@dataclass(frozen=True)
class Sink:
    """Where the results of a stream are delivered, and within what time of their birth."""

    output: str
    stream: str
    node: str
    deadline_us: float


@dataclass(frozen=True)
class System:
    """Nodes, tasks, sinks and links."""

    speeds: Mapping[str, float]  # of the nodes
    tasks: tuple[NodeTask, ...]
    sinks: tuple[Sink, ...]
    routes: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # hops from node to node, by stream
    wires: Mapping[tuple[str, str], Wire] = field(default_factory=dict)  # a hop that is not listed takes no time
    tuple_bytes: Mapping[str, float] = field(default_factory=dict)  # by stream


@dataclass(frozen=True)
class Parcel:
    """Tuples that travel together: a task hands them on when it has done the last one. With `count` 1, every tuple
    travels alone.
    """

    label: str
    count: int
    born_us: float
    job: int = 0  # where a task waits for all inputs, parcels of the same job meet


@dataclass(frozen=True)
class Release:
    """Tuples that a source gives. They may have aged since their birth: the first task's deadline
    runs from the birth.
    """

    stream: str
    node: str
    at_us: float
    parcel: Parcel


def singles(release: Release) -> list[Release]:
    """Returns the same tuples, each as a parcel of its own."""
    parcel = release.parcel
    parts = [
        Parcel(f"{parcel.label}.{i + 1}", 1, parcel.born_us, parcel.job * parcel.count + i) for i in range(parcel.count)
    ]
    return [Release(release.stream, release.node, release.at_us, part) for part in parts]

"""What a simulated set of nodes is made of: tasks on nodes, links between nodes, tuples that come in.

A task is a chain of operators that runs on one node without being left in between; a stream goes from the operator that
makes it to every task that reads it, over the hops of its route where that is on another node. Everything here is
frozen: a run keeps its state elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One operator of a task."""

    operator: str
    cost_us: float  # a tuple, on a node of speed 1
    outs: tuple[str, ...]  # streams that it makes
    selectivity: float = 1.0


@dataclass(frozen=True)
class NodeTask:
    name: str
    node: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    deadline_us: float | None = None  # the task's sub-deadline, from the moment its tuples come
    waits: bool = False  # for a parcel of the same job from each input; one run of it handles a tuple of each
    release_us: float | None = (
        None  # after birth: a sub-deadline does not begin before; None: with the creation, as in the paper
    )


@dataclass(frozen=True)
class Wire:
    """A link in one direction: parcels go one after another at its bandwidth, then each needs the delay."""

    delay_us: float = 0.0
    bytes_per_s: float | None = None  # None: more than anyone sends

    def sending_us(self, size_bytes: float) -> float:
        return 0.0 if self.bytes_per_s is None else 1e6 * size_bytes / self.bytes_per_s


@dataclass(frozen=True)
class Sink:
    """Where a stream's results are wanted, and within what time of their birth."""

    output: str
    stream: str
    node: str
    deadline_us: float


@dataclass(frozen=True)
class System:
    speeds: Mapping[str, float]  # of the nodes
    tasks: tuple[NodeTask, ...]
    sinks: tuple[Sink, ...]
    routes: Mapping[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict
    )  # by stream: its hops from node to node
    wires: Mapping[tuple[str, str], Wire] = field(default_factory=dict)  # a hop without an entry takes no time
    tuple_bytes: Mapping[str, float] = field(default_factory=dict)  # by stream


@dataclass(frozen=True)
class Parcel:
    """Tuples that travel together: a task hands them on when it is done with the last. `count` 1: tuple by tuple."""

    label: str
    count: int
    born_us: float
    job: int = 0  # parcels of the same job meet where a task waits for all its inputs


@dataclass(frozen=True)
class Release:
    """A source gives tuples. They may have aged since their birth: the first task's deadline runs from the birth."""

    stream: str
    node: str
    at_us: float
    parcel: Parcel


def singles(release: Release) -> list[Release]:
    """The same tuples, each on its own: no batching."""
    parcel = release.parcel
    parts = [
        Parcel(f"{parcel.label}.{i + 1}", 1, parcel.born_us, parcel.job * parcel.count + i) for i in range(parcel.count)
    ]
    return [Release(release.stream, release.node, release.at_us, part) for part in parts]

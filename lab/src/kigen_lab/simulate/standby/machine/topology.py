"""Who reads from whom, and what stands by for whom. Static: given to every replica, changed by nobody.

A node is one or two replicas, `N.0` and `N.1`. Epochs count from 1, and whose an epoch is follows from its number: odd
ones are replica 0's, even ones replica 1's. So two replicas can never both be the primary of one epoch, whatever they
believe about each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Mode = Literal["lazy", "active", "upstream", "passive"]
Codec = Literal["none", "zlib", "zstd", "lz4"]
Recovery = Literal["precise", "rollback", "gap"]
Returning = Literal["copy", "rebuild"]
_BATCHES = {"active": 1.0, "upstream": math.inf, "passive": math.inf}


@dataclass(frozen=True)
class Standby:
    """How a node is backed. Active and upstream standby are lazy standby with batches of one and of infinitely many
    tuples."""

    mode: Mode = "lazy"
    batch: float = 25
    compress: Codec = "zlib"
    recovery: Recovery = "precise"
    returning: Returning = (
        "rebuild"  # how a replica that lost its state gets it back: from upstream, or from the primary
    )
    period_us: float = 1e6  # passive: between copies

    def __post_init__(self) -> None:
        if self.mode == "lazy" and self.batch < 1:
            raise ValueError(f"batch must be 1 or more tuples; got {self.batch:g}")

    @property
    def batch_size(self) -> float:
        return _BATCHES.get(self.mode, self.batch)

    @property
    def passive(self) -> bool:
        return self.mode == "passive"


@dataclass(frozen=True)
class Stream:
    name: str
    producer: str
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    streams: tuple[Stream, ...]
    standby: Mapping[str, Standby] = field(default_factory=dict)  # of the nodes that have one

    def replicas(self, node: str) -> tuple[str, ...]:
        return (f"{node}.0", f"{node}.1") if node in self.standby else (f"{node}.0",)

    def owner(self, node: str, epoch: int) -> str:
        """The primary of that epoch."""
        return f"{node}.{(epoch - 1) % 2 if node in self.standby and epoch > 0 else 0}"

    def backup(self, node: str, epoch: int) -> str | None:
        return f"{node}.{epoch % 2}" if node in self.standby and epoch > 0 else None

    def recovery(self, node: str) -> Recovery:
        return self.standby[node].recovery if node in self.standby else "precise"


@dataclass(frozen=True)
class Place:
    """One replica's place in the topology."""

    topology: Topology
    node: str
    index: int = 0

    @cached_property
    def me(self) -> str:
        return f"{self.node}.{self.index}"

    @cached_property
    def partner(self) -> str | None:
        return f"{self.node}.{1 - self.index}" if self.paired else None

    @cached_property
    def paired(self) -> bool:
        return self.node in self.topology.standby

    @cached_property
    def standby(self) -> Standby:
        return self.topology.standby.get(self.node, _ALONE)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Of each input stream, the node it comes from."""
        return {s.name: s.producer for s in self.topology.streams if self.node in s.readers}

    @cached_property
    def outputs(self) -> dict[str, tuple[str, ...]]:
        """Of each output stream, the nodes that read it."""
        return {s.name: s.readers for s in self.topology.streams if s.producer == self.node}

    @cached_property
    def upstream(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.inputs.values())))

    @cached_property
    def downstream(self) -> tuple[str, ...]:
        return tuple(sorted({reader for readers in self.outputs.values() for reader in readers}))

    @cached_property
    def neighbours(self) -> tuple[str, ...]:
        """Every replica upstream and downstream."""
        return tuple(r for node in (*self.upstream, *self.downstream) for r in self.topology.replicas(node))

    def next_epoch(self, after: int) -> int:
        """The first epoch after that one that is mine."""
        epoch = after + 1
        return epoch if not self.paired or (epoch - 1) % 2 == self.index else epoch + 1


_ALONE = Standby(mode="upstream")


def node_of(replica: str) -> str:
    return replica.rpartition(".")[0]

"""Content of a nodes file: its nodes, links, streams, results and operators, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kigen.durable import POWER
from kigen.placement.nodes_file.standby_settings import COPY_PERIOD_US
from kigen.placement.problem import ProblemLink, ProblemNode

FIRST_PORT = 47100
STANDBY_PORT = 500  # offset of a standby's port from its node's, if it is not given


class NodesFileError(ValueError):
    """All errors of a nodes file."""

    def __init__(self, file: str, errors: tuple[str, ...]) -> None:
        super().__init__(file, errors)
        self.file, self.errors = file, errors

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {error}" for error in self.errors)


@dataclass(frozen=True)
class NodeEntry:
    """A node and its standby.

    `standby`, `batch` (tuples; None: to be chosen) and `compress` say how the node's work is taken over when it dies,
    and at which cost. `silence_us`: a node that does not answer for this long counts as dead.
    """

    name: str
    speed: float = 1.0
    host: str = "127.0.0.1"
    port: int = FIRST_PORT
    standby: str | None = None
    batch: int | None = 25
    compress: str = "none"
    standby_host: str = "127.0.0.1"
    standby_port: int = FIRST_PORT + STANDBY_PORT
    silence_us: float = 1e6
    recovery_within_us: float | None = None  # batch = "auto": limits for the choice
    overhead_below: float | None = None
    figures: str | None = None  # a file of `kigen bench standby --json`, relative to the nodes file
    certificate: str | None = None
    key: str | None = None
    period_us: float = COPY_PERIOD_US  # passive: how often its files are copied
    durability: str = POWER  # what it acknowledges survives a power cut ("power"), or only a kill ("process")

    @property
    def rows_at_once(self) -> int | None:
        """Rows for which the standby waits before it takes them: one (active), a batch (lazy), or None (upstream:
        never).
        """
        return {"active": 1, "upstream": None}.get(self.standby or "", self.batch)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses at which it is served, the standby last."""
        own, other = f"{self.host}:{self.port}", f"{self.standby_host}:{self.standby_port}"
        return (own,) if self.standby is None else (own, other)

    @property
    def node(self) -> ProblemNode:
        """The node as the placement problem knows it."""
        return ProblemNode(self.name, self.speed)


@dataclass(frozen=True)
class StreamEntry:
    """Where a stream is born, and its rate and size if given."""

    born: tuple[str, ...]
    rate: float | None = None  # tuples per second
    tuple_bytes: float | None = None
    period_us: float | None = None


@dataclass(frozen=True)
class OperatorEntry:
    """Where an operator may run, and its cost and selectivity if given."""

    nodes: tuple[str, ...] = ()
    cost_us: float | None = None
    selectivity: float | None = None


@dataclass(frozen=True)
class NodesFile:
    """Content of a nodes file."""

    file: str
    nodes: tuple[NodeEntry, ...]
    links: tuple[ProblemLink, ...]
    streams: Mapping[str, StreamEntry] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)  # query -> node; "default" for all others
    operators: Mapping[str, OperatorEntry] = field(default_factory=dict)
    period_us: float = 100_000.0
    default_deadline_us: float = 60_000_000.0
    token_file: str | None = None

    def entry(self, name: str) -> NodeEntry:
        """Returns the entry of a node."""
        return next(n for n in self.nodes if n.name == name)

"""Describes the kinds of standby: what a node with a standby reads, acknowledges and does to find its leader.

`StandbyKind` is the one description that real nodes (`kigen.engine.nodes`, `kigen.links.relay`), the simulator and the
exhaustive search share. There are three implementations:

- `Alone`: a node without a standby. It acknowledges rows as soon as they are in its own queue.
- `ReadingStandby`: lazy, active and upstream standby. Both replicas compute. They differ in one number, the rows for
  which the follower waits: one (active), a batch (lazy), a batch that is never full (upstream).
- `PassiveStandby`: only the leader computes. The follower keeps copies of the leader's files.

Invariant: nothing is acknowledged that the files of either replica may still ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kigen.replicas import passive_election
from kigen.replicas.replica_names import replica_name
from kigen.replicas.roles import LEADS, STANDS_BY, Decision, OtherReplica, ThisReplica

LAZY, ACTIVE, UPSTREAM, PASSIVE = "lazy", "active", "upstream", "passive"
NEVER_FULL = 1 << 40  # rows in a batch
LEADS_ON_S = 3.0  # a leader that nobody reads goes on for so long: a reader may be about to ask again


class Acks(Enum):
    """When a replica acknowledges its input to the upstream node."""

    APPENDED = "appended"  # when the rows are in this node's queue
    DELIVERED = "delivered"  # when the downstream nodes have the results of the rows
    COPIED = "copied"  # when the follower has a copy that does not need the rows


@dataclass(frozen=True)
class InputRequest:
    """How a replica asks its upstream node for rows: in whole batches of so many (None: as they come)."""

    batch: int | None = None
    compress: str = "none"


class StandbyKind(Protocol):
    @property
    def replicas(self) -> int:
        """Counts the replicas of the node."""
        ...

    @property
    def acks(self) -> Acks: ...

    @property
    def skips_trimmed(self) -> bool:
        """Whether a replica may go on behind rows that were trimmed before it got them: a gap row stands for them."""
        ...

    def request(self, leads: bool) -> InputRequest | None:
        """Says how a replica asks for its input; None: it asks for nothing."""
        ...

    def required(self, node: str) -> list[str]:
        """Lists the replicas whose acks the upstream node waits for until one reports that it leads."""
        ...

    def next_role(self, this: ThisReplica, other: OtherReplica) -> Decision:
        """Decides which role a replica takes. It is asked again and again."""
        ...


@dataclass(frozen=True)
class Alone:
    """A node without a standby."""

    replicas: int = 1
    acks: Acks = Acks.APPENDED
    skips_trimmed: bool = False

    def request(self, leads: bool) -> InputRequest:
        return InputRequest()

    def required(self, node: str) -> list[str]:
        return [node]

    def next_role(self, this: ThisReplica, other: OtherReplica) -> Decision:
        return LEADS, "it is the only one"


@dataclass(frozen=True)
class ReadingStandby:
    """Lazy, active and upstream standby: both replicas compute the same rows, and the one that is read leads.

    A node without memory (`skips_trimmed`) needs no input whose results are delivered. Its leader acknowledges just
    that, and what it acknowledged before a batch was full is never sent to the follower.
    """

    compress: str = "none"  # of what travels to the follower
    batch: int | None = None  # rows for which the follower waits; None: it takes rows as they come
    skips_trimmed: bool = False

    @property
    def replicas(self) -> int:
        return 2

    @property
    def acks(self) -> Acks:
        return Acks.DELIVERED if self.skips_trimmed else Acks.APPENDED

    def request(self, leads: bool) -> InputRequest:
        return InputRequest() if leads else InputRequest(self.batch, self.compress)

    def required(self, node: str) -> list[str]:
        return [node] if self.skips_trimmed else [replica_name(node, 0), replica_name(node, 1)]

    def next_role(self, this: ThisReplica, other: OtherReplica) -> Decision:
        """A replica that a downstream node reads leads. Two that lead for a while give the same rows."""
        if this.unfollowed_s == 0:
            return LEADS, "a downstream node reads here"
        if this.role == LEADS and this.unfollowed_s < LEADS_ON_S:
            return LEADS, "a reader may be about to ask again"
        return STANDS_BY, "nobody reads here"


@dataclass(frozen=True)
class PassiveStandby:
    """Passive standby: the leader computes, and acknowledges for both replicas what the newest copy does not need."""

    compress: str = "none"  # of what travels of a copy
    period_us: float = 10e6  # between copies

    @property
    def replicas(self) -> int:
        return 2

    @property
    def acks(self) -> Acks:
        return Acks.COPIED

    @property
    def skips_trimmed(self) -> bool:
        return False

    def request(self, leads: bool) -> InputRequest | None:
        return InputRequest() if leads else None

    def required(self, node: str) -> list[str]:
        return [replica_name(node, 0), replica_name(node, 1)]

    def next_role(self, this: ThisReplica, other: OtherReplica) -> Decision:
        return passive_election.next_role(this, other)


def standby_kind(
    word: str | None,
    batch: int | None = None,
    compress: str = "none",
    skips_trimmed: bool = False,
    period_us: float = 10e6,
) -> StandbyKind:
    """Makes the kind that a nodes file names (`standby = WORD`; None: no standby)."""
    if word is None:
        return Alone()
    if word == PASSIVE:
        return PassiveStandby(compress, period_us)
    rows = {ACTIVE: 1, UPSTREAM: NEVER_FULL}.get(word, NEVER_FULL if batch is None else batch)
    return ReadingStandby(compress, None if rows == 1 else rows, skips_trimmed)


def asks_anew(kind: StandbyKind) -> bool:
    """Whether a replica breaks its connection to the upstream node when its role changes, to ask in another way.

    A codec alone is not worth it: a replica of an active standby that begins to lead goes on as it is.
    """
    request = kind.request(leads=False)
    return kind.acks is Acks.DELIVERED or (request is not None and request.batch is not None)

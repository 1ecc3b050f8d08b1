"""Models a replica in memory, without time: all that is decided is decided by the parts that run on real nodes.

Real are `StandbyKind`, `ServerChoice`, `RelayUnits`, `DeliveredAcks`, `LeadTracking` and `ProducersAndReaders`. Queues
are lists, a micro-batch is a function, and a connection exists or does not. The simulator (`trial`) adds time and
links; the search in `tests/protocol` tries all orders. A downstream node that does no work is a replica, too, of the
kind `Alone`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from kigen.queue import ENDED
from kigen.queue.saving import without_rows
from kigen.replicas.lead_tracking import LeadTracking
from kigen.replicas.relay_units import DeliveredAcks, RelayUnits, Unit, ack_for_others, upstream_position
from kigen.replicas.replica_names import node_of, required_with_leader
from kigen.replicas.server_choice import ServerChoice
from kigen.replicas.standby_kind import Acks, StandbyKind
from kigen_lab.simulate.standby.virtual_queue import (
    END,
    RELAY,
    SELF,
    VirtualQueue,
    clone,
    make_gap_row,
    to_batch,
    to_rows,
)


class Operator(Protocol):
    """What a node computes. It is immutable: a step gives the operator after it."""

    def step(self, rows: list[int]) -> tuple[Operator, int | None, list[int]]:
        """Returns the operator afterwards; the number of results to jump to, if a gap row came; the results behind
        it."""
        ...


@dataclass
class Files:
    """What survives a kill: the queues, and how far the run has come."""

    input: VirtualQueue
    output: VirtualQueue
    operator: Operator
    worked: int = 0
    unit: int = -1  # the last one that was written
    begun: int | None = None  # the end of a batch that is under way
    needs: int = 0  # a copy's run may not begin before the input up to there is back

    def copy(self) -> Files:
        made = clone(self)
        made.input, made.output = self.input.copy(), self.output.copy()
        return made

    def without_input(self) -> Files:
        """Makes a copy for the follower of a passive pair: the upstream node keeps the input rows."""
        made = self.copy()
        made.input, made.needs = VirtualQueue(without_rows(self.input.clients)), self.input.end
        return made

    def key(self) -> tuple[object, ...]:
        queues = self.input.key(), self.output.key()
        return *queues, self.operator, self.worked, self.unit, self.begun, self.needs


@dataclass
class VirtualReplica:
    name: str
    kind: StandbyKind
    servers: int  # of the upstream node
    files: Files
    find_watermarks: Callable[[pa.RecordBatch], list[int]] | None = None
    up: bool = True
    over: bool = False  # it has delivered everything
    written: bool = False  # the results of the batch that is under way
    units: RelayUnits | None = None  # while it follows a server
    asked_as_leader: bool = False  # in its request to the server that it follows
    acks: DeliveredAcks = field(init=False)
    leading: LeadTracking = field(init=False)
    choice: ServerChoice = field(init=False)

    def __post_init__(self) -> None:
        self.acks, self.leading = DeliveredAcks(self.find_watermarks), LeadTracking(self.kind, False)
        self.choice = ServerChoice(self.name, self.servers)

    @property
    def node(self) -> str:
        return node_of(self.name)

    @property
    def input(self) -> VirtualQueue:
        return self.files.input

    @property
    def output(self) -> VirtualQueue:
        return self.files.output

    @property
    def position(self) -> int:
        """Returns the upstream offset behind what is here."""
        relay = self.input.clients.producers.get(RELAY)
        return 0 if relay is None else upstream_position(relay.next, self.kind.skips_trimmed)

    @property
    def delivered_everything(self) -> bool:
        files = self.files
        worked = self.input.ended and files.begun is None and files.worked == self.input.end
        return worked and self.output.ended and not self.output.rows

    def copy(self) -> VirtualReplica:
        made = clone(self)
        made.files, made.units = self.files.copy(), None if self.units is None else clone(self.units)
        made.acks, made.leading, made.choice = clone(self.acks), clone(self.leading), clone(self.choice)
        made.acks._known, made.leading._commits = copy(self.acks._known), copy(self.leading._commits)
        return made

    def killed(self) -> None:
        self.up, self.written, self.units, self.asked_as_leader = False, False, None, False
        self.__post_init__()

    def lost(self, answered: bool = True) -> None:
        """The server that was followed (or tried in vain) is gone, or counts as gone."""
        self.units = None
        self.choice.leave(answered)

    def key(self) -> tuple[object, ...]:
        units = None if self.units is None else (self.units._first, tuple(to_rows(self.units._waiting)))
        acks, leading = (tuple(self.acks._known), self.acks.last), (self.leading.leads, tuple(self.leading._commits))
        state = self.written, self.up, self.over, units, self.choice.index, self.asked_as_leader
        return *self.files.key(), *state, acks, leading

    # --- its own work -----------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        files = self.files
        return files.begun is not None or self.input.end > max(files.worked, files.needs - 1)

    def begin_batch(self) -> int:
        """Plans the next batch, if none is under way; returns how many rows it has."""
        files = self.files
        files.begun = self.input.end if files.begun is None else files.begun
        return files.begun - files.worked

    def write(self, only_jump: bool = False) -> None:
        """Writes the results of a batch. `only_jump`: it is killed before it has written more than the jump."""
        self.begin_batch()
        _, jump, results = self.files.operator.step(self.batch_rows())
        if jump is not None:
            self.output.skip(jump)
        if results and not only_jump:
            self.output.append(results, self.files.unit + 1, SELF, results[-1] == END)
        self.written = True

    def commit(self) -> None:
        files = self.files
        assert files.begun is not None
        files.operator, _, results = files.operator.step(self.batch_rows())
        files.unit += bool(results)
        files.worked, files.begun, self.written = files.begun, None, False
        self.input.ack(SELF, files.worked)
        if self.kind.acks is Acks.DELIVERED:
            self.leading.committed(files.worked, self.output.end)

    def batch_rows(self) -> list[int]:
        kept = self.input.read(self.files.worked)
        assert kept is not None
        assert self.files.begun is not None
        return kept[1][: self.files.begun - self.files.worked]

    # --- with a server ----------------------------------------------------------------------------------------------

    def follow(self, server: VirtualQueue) -> None:
        """Asks a server for its rows, as `kigen.links.relay` does."""
        server.clients.open_reader(self.name, None, None)
        counts = "batches" if self.kind.skips_trimmed else "tuples"
        self.input.clients.open_producer(RELAY, None, counts, None)
        self.units = RelayUnits(self.position, self.find_watermarks, make_gap_row)
        self.asked_as_leader = self.leading.leads
        if self.counts_by_role:
            self.require(server)
            self.send_delivered(server)

    @property
    def counts_by_role(self) -> bool:
        """Whether its acks count because it leads."""
        return self.kind.acks is Acks.DELIVERED and self.leading.leads

    def require(self, server: VirtualQueue) -> None:
        server.require(required_with_leader(server.clients.required, self.name))

    def send_delivered(self, server: VirtualQueue) -> None:
        offset, note = self.acks.last
        if offset:
            server.ack(self.name, offset, note)

    def offered(self, server: VirtualQueue, position: int) -> tuple[int, list[int]] | None:
        """Returns what a server sends from a position on; see `VirtualQueue.read`."""
        request = self.kind.request(self.asked_as_leader)
        assert request is not None
        return server.read(position, request.batch, self.kind.skips_trimmed)

    def received(self, first: int, note: str, rows: list[int], ended: bool) -> None:
        """Appends what a server sent. `ended`: nothing follows."""
        assert self.units is not None
        self._append(self.units.received(first, note, [to_batch(rows)] if rows else []), ended)

    def _append(self, unit: Unit, ended: bool) -> None:
        if unit.rows:
            sequence = unit.end if self.kind.skips_trimmed else unit.first
            self.input.append(to_rows(unit.batches), sequence, RELAY, ended and unit.complete)
            if self.kind.acks is Acks.DELIVERED:
                self.acks.appended(unit, self.input.end)
        elif unit.complete and ended:
            self.input.clients.producers[RELAY].progress_us = ENDED

    def take(self, server: VirtualQueue) -> None:
        """Receives at once what a server offers; leaves it if it cannot say what it trimmed."""
        assert self.units is not None
        offered = self.offered(server, self.units.next)
        if offered is None:
            self.lost(answered=False)
            return
        first, rows = offered
        ended = server.ended and first + len(rows) == server.end
        self.received(first, server.clients.note or "", rows, ended)

    def would_take(self, server: VirtualQueue) -> bool:
        assert self.units is not None
        offered = self.offered(server, self.units.next)
        if offered is None:
            return True  # to leave it
        first, rows = offered
        has_all = self.units.next == server.end and not self.units.waits
        return bool(rows) or first > self.units.next or (server.ended and has_all and not self.input.ended)

    def look(self, unfollowed_s: float) -> tuple[bool, bool]:
        """Decides anew whether it leads; returns whether that has changed, and whether there is an ack to send."""
        changed = self.leading.look(unfollowed_s)
        if self.kind.acks is not Acks.DELIVERED:
            return changed, False
        delivered = self.leading.delivered(self.output.start)
        return changed, delivered is not None and self.acks.worked_off(delivered[0], str(delivered[1]))

    def has_delivered(self) -> bool:
        """Whether there are inputs that it could acknowledge, now that their results are delivered."""
        commits = self.leading._commits
        return self.kind.acks is Acks.DELIVERED and bool(commits) and commits[0][1] <= self.output.start

    # --- with a server that it does not follow ------------------------------------------------------------------------

    def ack_for_others(self) -> tuple[int, str] | None:
        return ack_for_others(self.kind, self.leading.leads, self.position, self.acks.last)

    def has_report_for(self, server: VirtualQueue) -> bool:
        known, ack = server.clients.readers.get(self.name), self.ack_for_others()
        if ack is None:
            return False
        unknown_leader = self.counts_by_role and self.name not in server.clients.required
        return unknown_leader or (known is not None and known.ack < ack[0])

    def report_to(self, server: VirtualQueue) -> None:
        ack = self.ack_for_others()
        assert ack is not None
        if self.counts_by_role:
            self.require(server)
        if ack[0]:
            server.ack(self.name, *ack)

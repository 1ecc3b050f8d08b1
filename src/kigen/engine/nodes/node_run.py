"""Runs one node of a placed app: its queues and their server, its relays from upstream nodes, and its run on Spark.

Everything that a node must not lose lies below its state directory: the queues (files that a kill leaves whole) and
Spark's checkpoint. A node that is started again there goes on. Its upstream nodes keep what its files do not hold yet;
its downstream nodes ask again from where they stand. Invariant: a tuple is acknowledged to the upstream node only when
it is in a file here (synced, if the node's durability is "power"). It leaves the files here only when no reader, this
node's own Spark included, can ask for it again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.durable import POWER
from kigen.engine.nodes.adoption import CHECKPOINT, Adoption
from kigen.engine.nodes.node_options import NodeOptions, reader_token, replicated, security_of
from kigen.engine.nodes.node_queues import SELF, is_delivered, is_ended, open_queues
from kigen.engine.nodes.node_status import queries_status, queues_status, relays_status
from kigen.engine.nodes.standby_rules import kind_of
from kigen.engine.nodes.version_check import require_same_software_there
from kigen.engine.options import RunOptions
from kigen.engine.preparation import Links, warn_of_slow_disk
from kigen.engine.run import Run
from kigen.lifetimes.exchange.sent import gap_row, watermark_places
from kigen.links import NEIGHBOUR, STATUS, LinkServer, Relay, Watch
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile
from kigen.replicas.lead_tracking import LeadTracking
from kigen.replicas.replica_names import node_of, replica_name
from kigen.replicas.roles import LEADS, STANDS_BY
from kigen.replicas.standby_kind import Acks, StandbyKind
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.links.link_source import Access

DELIVERING = "delivering"  # the node's own work is done


@dataclass(frozen=True)
class PassiveHost:
    """What a `NodeRun` uses of the process around it, if it leads a passive pair and may end before that process."""

    server: LinkServer
    folder: Path  # of the run's files
    on_whole_batches: Callable[[NodeRun], None]  # called when the files are those of whole epochs


class NodeRun:
    """Serves its queues from the moment it exists. `begin` starts what runs on Spark, if anything does."""

    def __init__(
        self,
        parts: Mapping[str, NodePart],
        name: str,
        nodes: NodesFile,
        options: NodeOptions,
        replica: int = 0,
        host: PassiveHost | None = None,
    ) -> None:
        self.part, self.options, entry = parts[name], options, nodes.entry(name)
        part, self.paired, self.replica = self.part, entry.standby is not None, replica
        self.name, address = replica_name(name, replica), entry.addresses[replica]
        self._other = entry.addresses[1 - replica] if self.paired and host is None else None
        self._security, self._host = security_of(nodes, part.node, options.state), host
        self._folder = options.state / self.name if host is None else host.folder
        self._durability = entry.durability
        self.run: Run | None = None
        self.serves: str | None = None  # address of its HTTP server
        self._silence_s, self._relays = entry.silence_us / 1e6, dict[str, Relay]()
        self._state, self._began = "starting", time.time()
        follows = None if self.paired else options.follows
        self._adoption = Adoption.of(self._folder, follows, part, entry.durability)
        self.queues = open_queues(parts, name, nodes, self._folder, entry.durability)
        kind = kind_of(parts, name, nodes)
        self._acks, self._led_at, self._worked_off = kind.acks, time.monotonic(), dict[str, int]()
        self._looking = threading.Lock()
        self._leading = LeadTracking(kind, not self.paired or host is not None)
        if host is None:
            served = (*self.queues.values(), *self._adoption.former.values())
            self._server = LinkServer(served, address, self._security, cut_off=lambda: self.gives_nothing_new)
            self._server.about = self.about
        else:
            self._server = host.server
            for queue in self.queues.values():
                self._server.add(queue)
        self._replicas = [replica_name(name, i) for i in range(len(entry.addresses))]
        self._relays = {stream: self._relay(stream, nodes, kind) for stream in part.received}
        if self.paired and host is None:
            self._server.on_followed = self._look_for_readers
        if part.app.queries:
            sinks = {q.name: LinkSink(q, self.queues[q.name]) for q in part.app.queries if q.sent}
            sinks |= {q.name: LinkSink(q, self._adoption.former[q.name]) for q in self._adoption.former_sent}
            links = Links(
                Access(address, reader_token(self._security, self._folder), self._security.roots, self.paired),
                dict(sinks),
                self._committed,
                self._epoch_ended,
                self._adoption.is_due,
            )
            checkpoint = str(self._folder / CHECKPOINT)
            app = replicated(part) if self.paired else part.app
            chosen = options.run_options(None if host is None else entry.period_us / 1e6, self._durability)
            self.run = Run(app, RunOptions(checkpoint=checkpoint, **chosen), links)
        elif self._durability == POWER:
            warn_of_slow_disk(self._folder)
        if not self.finishes_former:
            self._adopted()

    @property
    def finishes_former(self) -> bool:
        """Whether a batch or epoch of the app before a change has to be finished first."""
        return self._adoption.is_due and self.run is not None and self.run.change_is_pending

    def _adopted(self) -> None:
        """Ends what the node did for the app before a change, now that its run has changed."""
        for queue in self._adoption.former.values():
            self._server.remove(queue)
        self._adoption.done(self.queues, self._durability)

    def _relay(self, stream: str, nodes: NodesFile, kind: StandbyKind) -> Relay:
        before, sent = nodes.entry(self.part.received[stream]), self.part.plans[stream]

        def make_gap_row(note: str) -> pa.RecordBatch:
            return gap_row(sent.plan.schema, sent.is_stream, int(note or 0))

        silence_s = before.silence_us / 1e6
        watch = Watch(silence_s, min(Watch.every_s, silence_s / 2), alone=self.paired)
        return Relay(
            self.queues[stream],
            before.addresses,
            self.name,
            self._security.as_role(NEIGHBOUR),
            kind,
            watermark_places,
            make_gap_row,
            watch,
            self._leading.leads,
        )

    def _committed(self, oldest: dict[str, int], worked_off: dict[str, int]) -> None:
        self._worked_off.update(worked_off)
        for stream, number in oldest.items():
            if stream in self.part.used:
                self.queues[stream].ack(SELF, number)
        if self._acks is Acks.DELIVERED:
            (stream,), (made,) = self.part.used, self.part.made
            if stream in worked_off:
                self._leading.committed(worked_off[stream], int(self.queues[made].status()["end"]))

    def _epoch_ended(self) -> None:
        if self._host is not None:
            self._host.on_whole_batches(self)

    @property
    def unfollowed_s(self) -> float:
        """Returns for how long no downstream node has read from here; 0: one reads."""
        others = self.part.read_by
        followers = list(self._server.followers.items())
        if any(count > 0 and node_of(reader) in others for (_, reader), count in followers):
            self._led_at = time.monotonic()
            return 0.0
        return time.monotonic() - self._led_at

    @property
    def cut_off_from(self) -> list[str]:
        """Lists the streams whose upstream nodes a replica has not reached for longer than `silence`."""
        return [stream for stream, relay in self._relays.items() if self.paired and relay.cut_off_s > self._silence_s]

    @property
    def behind(self) -> int | None:
        """Counts the rows of upstream nodes that are here and not worked off; None: nothing was worked off since the
        start."""
        taken = [stream for stream in self.part.received if stream in self.part.used]
        if taken and not self._worked_off:
            return None
        return sum(
            max(0, int(self.queues[stream].status()["end"]) - self._worked_off.get(stream, 0)) for stream in taken
        )

    @property
    def gives_nothing_new(self) -> bool:
        """Whether readers had better read from the other replica: this one is cut off, or is not at work yet."""
        return self.paired and (self._state in ("starting", "ready") or bool(self.cut_off_from))

    def has_inputs(self, ends: Mapping[str, int]) -> bool:
        """Whether the inputs up to these offsets are here."""
        return all(int(self.queues[stream].status()["end"]) >= end for stream, end in ends.items())

    def copied(self, starts: Mapping[str, int]) -> None:
        """Acknowledges, for both replicas, the inputs that the follower's copy does not need: those before these
        offsets."""
        for stream, start in starts.items():
            self._relays[stream].release(self._replicas, start)

    def _look_around(self) -> None:
        """Decides anew whether this replica leads, and acknowledges inputs whose results are delivered."""
        if not self.paired:
            return
        if self._host is not None:
            if self.run is None:
                self._host.on_whole_batches(self)
            return
        self._look_for_readers()
        if self._acks is Acks.DELIVERED:
            (stream,), (made,) = self.part.used, self.part.made
            acknowledged = self._leading.delivered(int(self.queues[made].status()["start"]))
            if acknowledged is not None:
                self._relays[stream].ack(acknowledged[0], note=str(acknowledged[1]))

    def _look_for_readers(self) -> None:
        """Decides anew whether this replica leads. Also called when a reader comes: results are missing until then."""
        with self._looking:
            if self._leading.look(self.unfollowed_s):
                for relay in self._relays.values():
                    relay.lead(self._leading.leads)

    @property
    def needs_spark(self) -> bool:
        return self.run is not None and not self.run.finished

    def begin(self, spark: Any, ready: Callable[[], None], warmed: bool = False) -> None:
        """`ready` waits for the other nodes, if they are to begin together."""

        if self._other is not None:
            require_same_software_there(self._other, self._security.as_role(STATUS))

        def warm() -> None:
            self._state = "ready"
            ready()

        if self.run is None:
            warm()
        else:
            self.run.begin(spark, warm, warmed)
            self._adopted()
        self._state = "running"

    @property
    def active(self) -> bool:
        """Does what is due; returns whether there is more to wait for: inputs, or readers that have not got all."""
        self._look_around()
        self.check()
        if self.run is not None and self.run.active:
            return True
        if self.run is not None and not self.run.finished:
            return False  # stopped, or failed: `stop` raises the cause
        for name in self.part.used:
            self.queues[name].ack(SELF, self.queues[name].status()["end"])
        ended = all(is_ended(queue) for queue in self.queues.values())
        self._state = "relaying" if self.run is None and not ended else DELIVERING
        if any(not is_delivered(queue) for queue in self.queues.values()):
            return True
        if self.paired:
            for relay in self._relays.values():
                relay.release(self._replicas)
        return False

    def check(self) -> None:
        """Raises the error of a relay that cannot go on."""
        for relay in self._relays.values():
            if relay.error is not None:
                raise relay.error

    @property
    def finished(self) -> bool:
        return (self.run is None or self.run.finished) and all(is_delivered(queue) for queue in self.queues.values())

    def about(self) -> dict[str, Any]:
        """Describes the node for `kigen status`."""
        told: dict[str, Any] = {
            "node": self.name,
            "role": "alone" if not self.paired else LEADS if self._leading.leads else STANDS_BY,
            "pid": os.getpid(),
            "state": self._state,
            "up_s": round(time.time() - self._began, 1),
            "deaf": bool(self.cut_off_from),
            "behind": self.behind,
            "serves": self.serves,
        }
        told["from"] = relays_status(self.part, self._relays)
        told["sent"] = self._server.counters.to_json()
        told["queues"] = queues_status(self.queues)
        told["queries"] = {} if self.run is None or self._state == "starting" else queries_status(self.part, self.run)
        return told

    def stop(self) -> dict[str, Any] | None:
        """Ends everything in good order; returns the report of the run, if there was one. Raises what made it fail."""
        self._state = "stopping"
        try:
            return None if self.run is None else self.run.stop().report
        finally:
            for relay in self._relays.values():
                relay.close()
            for queue in self.queues.values():
                self._server.remove(queue)
            if self._host is None:
                self._server.close()
            for queue in (*self.queues.values(), *self._adoption.former.values()):
                queue.close()

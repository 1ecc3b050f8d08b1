"""One node of a placed app at work: its queues and their server, what it takes from other nodes, and its own run on Spark.

Everything a node must not lose lies below its state directory: the queues (files that a kill leaves whole) and Spark's checkpoint. Started
again there, it goes on; nodes before it keep what its files do not hold yet, nodes behind it ask again from where they stand.
Invariant: a tuple is acknowledged to the node before only when it is in a file here; it leaves the files here only when every reader, this
node's own Spark included, cannot ask for it again.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.engine.options import RunOptions
from kigen.engine.pairing import following, readers_of, replica_name
from kigen.engine.run import Links, Run
from kigen.lifetimes.sent import hole, mark_places, queue_schema
from kigen.links import ENDED, Following, LinkServer, Queue, QueueSettings, Relay, Security, Watch
from kigen.placement.cutting import Part
from kigen.placement.nodes_file import NodesFile
from kigen.spark.link_sink import LinkSink
from kigen.spark.link_source import Access

_LEADS_ON_S = 3.0  # a leader that nobody follows: a reader may be about to ask again
SELF = "spark"  # this node's own run, as a reader of its queues


@dataclass(frozen=True)
class NodeOptions:
    state: Path
    output: str | None = None
    policy: str | None = None
    duration_s: float | None = None

    def run_options(self) -> dict[str, Any]:
        chosen = {} if self.policy is None else {"policy": self.policy}
        return {"drain": False, "output": self.output, "duration_s": self.duration_s, "keep_results": False, "partitions": 1, **chosen}


def security_of(nodes: NodesFile, name: str | None) -> Security:
    """A node's own certificate and key (None: of one who only asks), the shared token, and every node's certificate as a root to trust."""
    folder, entry = Path(nodes.file).parent, None if name is None else nodes.entry(name)
    files = [folder / n.certificate for n in nodes.nodes if n.certificate is not None]
    own = Security.from_files(
        None if nodes.token_file is None else folder / nodes.token_file,
        None if entry is None or entry.certificate is None else folder / entry.certificate,
        None if entry is None or entry.key is None else folder / entry.key,
    )
    return Security(own.token, own.certificate, own.key, b"\n".join(file.read_bytes() for file in files))


class NodeRun:
    """Serves from the moment it exists; `begin` starts what runs on Spark, if anything does."""

    def __init__(self, parts: Mapping[str, Part], name: str, nodes: NodesFile, options: NodeOptions, replica: int = 0) -> None:
        self.part, self.options, entry = parts[name], options, nodes.entry(name)
        part, self.paired, self.replica = self.part, entry.standby is not None, replica
        self.name, address = replica_name(name, replica), entry.addresses[replica]
        self._security = security_of(nodes, part.node)
        self._folder = options.state / self.name
        self.run: Run | None = None
        self._state, self._began = "starting", time.time()
        self.queues = {stream: self._queue(stream, parts, nodes) for stream in part.plans}
        self._server = LinkServer(self.queues.values(), address, self._security, self.about)
        how = following(parts, name, entry)
        self._replicas = [replica_name(name, i) for i in range(len(entry.addresses))]
        self._by_hand, self._leads, self._led_at = how.by_hand, not self.paired, 0.0
        self._commits: deque[tuple[int, int]] = deque()  # by hand: input worked off, results there
        self._relays = {stream: self._relay(stream, nodes, how) for stream in part.received}
        if part.app.queries:
            sinks = {q.name: LinkSink(q, self.queues[q.name]) for q in part.app.queries if q.sent}
            links = Links(Access(address, self._security, halting=self.paired), dict(sinks), self._committed)
            checkpoint = str(self._folder / "checkpoint")
            app = replace(part.app, replicated=True, sharing=False) if self.paired else part.app
            self.run = Run(app, RunOptions(checkpoint=checkpoint, **options.run_options()), links)

    def _queue(self, name: str, parts: Mapping[str, Part], nodes: NodesFile) -> Queue:
        sent = self.part.plans[name]
        settings = QueueSettings(folder=self._folder / "queues", durable=True)
        queue = Queue(name, queue_schema(sent.plan.schema, sent.is_stream), settings)
        readers, required = readers_of(self.part, name, parts, nodes)
        own = [SELF] if name in self.part.used else []
        for reader in readers + own:
            queue.open_reader(reader)
        queue.require(required + own)
        return queue

    def _relay(self, stream: str, nodes: NodesFile, how: Following) -> Relay:
        before, sent = nodes.entry(self.part.received[stream]), self.part.plans[stream]

        def hole_for(note: str) -> pa.RecordBatch:
            return hole(sent.plan.schema, sent.is_stream, int(note or 0))

        watch = Watch(before.silence_us / 1e6)
        return Relay(self.queues[stream], before.addresses, self.name, self._security, how, mark_places, hole_for, watch)

    def _committed(self, oldest: dict[str, int], worked_off: dict[str, int]) -> None:
        for stream, number in oldest.items():
            if stream in self.part.used:
                self.queues[stream].ack(SELF, number)
        if self._by_hand:
            (stream,), (made,) = self.part.used, self.part.made
            if stream in worked_off:
                self._commits.append((worked_off[stream], int(self.queues[made].status()["end"])))

    def _look_around(self) -> None:
        """Whoever is read by a neighbour leads; a leader by hand acknowledges inputs whose results are delivered."""
        if not self.paired:
            return
        others = {name for stream in self.part.made for name in self.part.readers.get(stream, ())}
        followed = any(count > 0 and reader.partition(".")[0] in others for (_, reader), count in self._server.followers.items())
        if followed:
            self._led_at = time.monotonic()
        leads = followed or (self._leads and time.monotonic() - self._led_at < _LEADS_ON_S)
        if leads != self._leads:
            self._leads = leads
            for relay in self._relays.values():
                relay.lead(leads)
        if self._by_hand:
            (stream,), (made,) = self.part.used, self.part.made
            delivered, done = int(self.queues[made].status()["start"]), None
            while self._commits and self._commits[0][1] <= delivered:
                done = self._commits.popleft()
            if done is not None and leads:
                self._relays[stream].ack(done[0], note=str(done[1]))

    def begin(self, spark: Any, ready: Callable[[], None]) -> None:
        """`ready` waits for the other nodes, if they are to begin together."""

        def warm() -> None:
            self._state = "ready"
            ready()

        if self.run is None:
            warm()
        else:
            self.run.begin(spark, warm)
        self._state = "running"

    @property
    def active(self) -> bool:
        """Does what is due, and says whether there is more to wait for: inputs, or readers that have not got everything."""
        self._look_around()
        for relay in self._relays.values():
            if relay.error is not None:
                raise relay.error
        if self.run is not None and self.run.active:
            return True
        if self.run is not None and not self.run.finished:
            return False  # stopped, or failed: `stop` will say
        for name in self.part.used:
            self.queues[name].ack(SELF, self.queues[name].status()["end"])
        self._state = "delivering"
        if any(not _delivered(queue) for queue in self.queues.values()):
            return True
        if self.paired:
            for relay in self._relays.values():
                relay.release(self._replicas)
        return False

    @property
    def finished(self) -> bool:
        return (self.run is None or self.run.finished) and all(_delivered(queue) for queue in self.queues.values())

    def about(self) -> dict[str, Any]:
        """For `kigen status`."""
        told: dict[str, Any] = {
            "node": self.name,
            "role": "alone" if not self.paired else "leads" if self._leads else "stands by",
            "pid": os.getpid(),
            "state": self._state,
            "up_s": round(time.time() - self._began, 1),
        }
        told["from"] = {
            name: {
                "node": self.part.received[name],
                "connected": relay.connected,
                "server": relay.address,
                "rows": relay.rows,
                "wire_bytes": relay.wire.received,
                "switched": relay.switched[-5:],
            }
            for name, relay in self._relays.items()
        }
        told["sent"] = self._server.counters.to_json()
        told["queues"] = {name: _short(queue.status()) for name, queue in self.queues.items()}
        told["queries"] = {} if self.run is None or self._state == "starting" else self._queries(self.run)
        return told

    def _queries(self, run: Run) -> dict[str, Any]:
        progress = run.progress
        return {name: {**vars(q), "sent": name in self.part.made} for name, q in progress.queries.items()}

    def stop(self) -> dict[str, Any] | None:
        """Ends everything in good order; the report of the run, if there was one. Raises what made it fail."""
        self._state = "stopping"
        try:
            return None if self.run is None else self.run.stop().report
        finally:
            for relay in self._relays.values():
                relay.close()
            self._server.close()
            for queue in self.queues.values():
                queue.close()


def _delivered(queue: Queue) -> bool:
    status = queue.status()
    return bool(status["progress_us"] == ENDED and status["kept_tuples"] == 0)


def _short(status: dict[str, Any]) -> dict[str, Any]:
    return {key: status[key] for key in ("start", "end", "kept_tuples", "kept_bytes", "lag")}

"""One node of a placed app at work: its queues and their server, what it takes from other nodes, and its own run on Spark.

Everything a node must not lose lies below its state directory: the queues (files that a kill leaves whole) and Spark's checkpoint. Started
again there, it goes on; nodes before it keep what its files do not hold yet, nodes behind it ask again from where they stand.
Invariant: a tuple is acknowledged to the node before only when it is in a file here; it leaves the files here only when every reader, this
node's own Spark included, cannot ask for it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen.engine.options import RunOptions
from kigen.engine.run import Links, Run
from kigen.lifetimes.sent import queue_schema
from kigen.links import ENDED, LinkServer, Queue, QueueSettings, Relay, Security
from kigen.placement.cutting import Part
from kigen.placement.nodes_file import NodesFile
from kigen.spark.link_sink import LinkSink
from kigen.spark.link_source import Access

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

    def __init__(self, part: Part, nodes: NodesFile, options: NodeOptions) -> None:
        self.part, self.options, entry = part, options, nodes.entry(part.node)
        self._security = security_of(nodes, part.node)
        self._folder = options.state / part.node
        self.run: Run | None = None
        self._state, self._began = "starting", time.time()
        self.queues = {name: self._queue(name) for name in part.plans}
        self._server = LinkServer(self.queues.values(), f"{entry.host}:{entry.port}", self._security, self.about)
        self._relays: dict[str, Relay] = {}
        for name, before in part.received.items():
            other = nodes.entry(before)
            self._relays[name] = Relay(self.queues[name], f"{other.host}:{other.port}", part.node, self._security)
        if part.app.queries:
            made = {q.name: q for q in part.app.queries if q.sent}
            sinks = {name: LinkSink(query, self.queues[name]) for name, query in made.items()}
            links = Links(Access(f"{entry.host}:{entry.port}", self._security), dict(sinks), self._committed)
            checkpoint = str(self._folder / "checkpoint")
            self.run = Run(part.app, RunOptions(checkpoint=checkpoint, **options.run_options()), links)

    def _queue(self, name: str) -> Queue:
        sent = self.part.plans[name]
        settings = QueueSettings(folder=self._folder / "queues", durable=True)
        queue = Queue(name, queue_schema(sent.plan.schema, sent.is_stream), settings)
        readers = [*self.part.readers.get(name, ()), *([SELF] if name in self.part.used else [])]
        for reader in readers:
            queue.open_reader(reader)
        queue.require(readers)
        return queue

    def _committed(self, oldest: dict[str, int]) -> None:
        for stream, number in oldest.items():
            if stream in self.part.used:
                self.queues[stream].ack(SELF, number)

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
        """Whether there is more to wait for: inputs, or readers that have not got everything."""
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
        return any(not _delivered(queue) for queue in self.queues.values())

    @property
    def finished(self) -> bool:
        return (self.run is None or self.run.finished) and all(_delivered(queue) for queue in self.queues.values())

    def about(self) -> dict[str, Any]:
        """For `kigen status`."""
        told: dict[str, Any] = {
            "node": self.part.node,
            "pid": os.getpid(),
            "state": self._state,
            "up_s": round(time.time() - self._began, 1),
        }
        told["from"] = {name: {"node": self.part.received[name], "connected": relay.connected} for name, relay in self._relays.items()}
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

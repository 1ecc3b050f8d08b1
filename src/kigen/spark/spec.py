"""Defines RunSpec: what every process of a run must know, on the driver and in workers. Spark's options carry it.

Invariant: it does not change during a run. The parts that outlive a restart are in the checkpoint
(kigen.engine.checkpoint).
"""

from __future__ import annotations

import base64
import importlib
import pickle
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kigen.connectors import Source, open_source
from kigen.connectors.table.source import TableSource
from kigen.plan.logical import LINK, App
from kigen.plan.shared_joins.slices import JoinSlices, join_slices, why_together
from kigen.plan.tasks import Task, extract_tasks, task_number
from kigen.queue.settings import QueueSettings
from kigen.schedule import DEFAULT_POLICY, PolicySettings
from kigen.schedule.slices import ADMITTED_NAMES
from kigen.spark.defaults import DEFAULT_MEMORY
from kigen.spark.links.ingest_source import IngestAccess, IngestSource
from kigen.spark.links.link_source import Access, LinkSource
from kigen.spark.operator.buckets import bucket_of
from kigen.spark.rounds.wire import Address
from kigen.spark.watch.memory import limit_bytes

BATCH_ROWS = 500_000
TUPLE_BYTES = 200  # rough size of an input tuple: a few columns and a text
SLICED_RUNTIME = "kigen.lifetimes.joins.sliced_runtime:SlicedRuntime"
INLINE_BYTES = 64 << 10  # kernel snapshots up to this size are part of the state, larger ones are files


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run."""

    app: App
    run_id: str  # new at every start: the cached state of a worker belongs to one run
    checkpoint: str
    scratch: str  # directory on the driver's machine for communication of processes; removed at the end
    draining: bool = True
    lifetime: str = "dt"
    policy: str = DEFAULT_POLICY
    settings: PolicySettings = field(default_factory=PolicySettings)
    batch_rows: int = BATCH_ROWS
    partitions: int | None = None  # None: one per core, but not more than tasks
    inline_bytes: int = INLINE_BYTES
    memory: str = DEFAULT_MEMORY  # limit of all workers on a machine: a size, or a share of its memory
    links: Access | None = None  # how streams from other nodes are read
    ingest: IngestAccess | None = None  # how pushed streams are read
    queue_bytes: int = QueueSettings.max_bytes  # what a queue of pushed tuples or of another node can hold
    tick_us: int = 250_000  # with `links`: how often watermarks are sent to other nodes at least
    syncs: bool = True  # whether committed batches outlive a power cut, not only a kill
    epoch_us: int = 0  # length of an epoch of live streams; 0: one round per epoch
    holds_all_slots: bool = False  # whether no slot is left for other jobs: they wait for the end of an epoch
    # Number of lanes. Once the run begins, 0 means no lanes: each batch is one round, and Spark hands it to the tasks.
    lanes: int = 0
    host: str | None = None  # the driver's address, for workers on other machines; None: all are on this machine
    sink: Address | None = None  # where lanes deliver their results
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)  # task that a change added -> stream -> its start
    begun_us: dict[str, int] = field(default_factory=dict)  # stream that a change added -> when it began
    change: int = 0  # number of the last change of the app
    dropped: tuple[int, tuple[str, ...]] = (0, ())  # batch after which tasks were dropped, and their names
    warm_up: bool = False  # run one batch without input, so that everything is started
    runtime: str = "kigen.lifetimes:TaskRuntime"  # module:class, so that tests can replace it

    def encode(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def decode(text: str) -> RunSpec:
        spec = pickle.loads(base64.b64decode(text))
        assert isinstance(spec, RunSpec)
        return spec

    @property
    def largest_rows(self) -> int:
        """Returns how many rows a batch of logs may have. A `batch_rows` below the default does not grow."""
        return min(self.batch_rows * (8 if self.batch_rows >= BATCH_ROWS else 1), rows_within(self.memory))

    @property
    def shortest_us(self) -> int | None:
        """Returns the shortest deadline of all queries. A drain has none: it should only finish soon."""
        return (
            None
            if self.draining
            else min((q.deadline_us for q in self.app.queries if q.deadline_us is not None), default=None)
        )

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        return extract_tasks(self.app)

    @cached_property
    def slices(self) -> dict[str, JoinSlices]:
        """Returns the slices of the tasks whose slices run separately."""
        return sliced_tasks(self.app, self.policy, self.draining)

    @property
    def has_live_streams(self) -> bool:
        """Whether tuples of some stream arrive as time passes."""
        return any(source.live for source in self.sources(0).values())

    def bucket(self, task: str) -> int:
        return bucket_of(task, task_number(task))

    def source(self, stream: str, started_us: int) -> Source:
        """Opens the source of a stream.

        `started_us` is when the first run on the checkpoint began, as its offsets record. Live sources count from it.
        """
        declared = self.app.stream(stream)
        if declared.source.name == LINK:
            assert self.links is not None, "a stream from another node needs its node's server"
            return LinkSource(declared, self.links)
        if self.ingest is not None and self.ingest.has(stream):
            return IngestSource(declared, self.ingest)
        if self.warm_up and declared.table:
            return TableSource(declared, None, self.checkpoint, ends=True)  # nothing reads it
        began_us = self.begun_us.get(stream, started_us)
        return open_source(declared, self.app.directory, self.draining, began_us, self.checkpoint)

    def listening_address(self, name: str) -> Address:
        """Returns the address on which a server for the lanes listens."""
        return str(Path(self.scratch) / name) if self.host is None else (self.host, 0)

    def is_queued(self, stream: str) -> bool:
        """Whether a queue of limited size keeps the stream's tuples until no replay needs them."""
        pushed = self.ingest is not None and self.ingest.has(stream)
        return pushed or self.app.stream(stream).source.name == LINK

    def sources(self, started_us: int, streams: set[str] | None = None) -> dict[str, Source]:
        """Opens the sources of these streams, or of all that queries read."""
        used = {s for query in self.app.queries for s in query.streams} if streams is None else streams
        return {stream.name: self.source(stream.name, started_us) for stream in self.app.streams if stream.name in used}

    def task_runtime(self, task: str) -> Any:
        module, _, name = (SLICED_RUNTIME if task in self.slices else self.runtime).partition(":")
        factory = getattr(importlib.import_module(module), name)
        return factory(next(t for t in self.tasks if t.name == task), self.app, self.lifetime)


def rows_within(memory: str) -> int:
    """Returns how many tuples a batch may have, so that its input takes about an eighth of the memory limit."""
    return limit_bytes(memory) // (8 * TUPLE_BYTES)


def sliced_tasks(app: App, policy: str, draining: bool) -> dict[str, JoinSlices]:
    """Returns the tasks whose shared join runs slice by slice: under a policy over slices, where the plan allows it."""
    if policy not in ADMITTED_NAMES or draining:
        return {}
    return {task.name: join_slices(task)[0] for task in extract_tasks(app) if why_together(task, app) is None}

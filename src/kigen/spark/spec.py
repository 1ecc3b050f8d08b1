"""What every process of a run must know: the reader on the driver, the workers, the sink. Travels as text through
Spark's options.

Invariant: nothing in it changes while the run lasts; what of it outlives a restart is in the checkpoint
(kigen.engine.checkpoint).
"""

from __future__ import annotations

import base64
import importlib
import pickle
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kigen.connectors import Source, open_source
from kigen.plan.logical import LINK, App
from kigen.plan.shared_joins.slices import JoinSlices, join_slices, why_together
from kigen.plan.tasks import Task, extract_tasks
from kigen.schedule import DEFAULT_POLICY, PolicySettings
from kigen.schedule.slices import ADMITTED_NAMES
from kigen.spark.defaults import DEFAULT_MEMORY
from kigen.spark.links.link_source import Access, LinkSource
from kigen.spark.operator.buckets import bucket_of
from kigen.spark.watch.memory import limit_bytes

BATCH_ROWS = 500_000
TUPLE_BYTES = 200  # of input, roughly: a few columns and a text
SLICED_RUNTIME = "kigen.lifetimes.joins.sliced_runtime:SlicedRuntime"
INLINE_BYTES = 64 << 10  # a kernel snapshot up to this size lies in the state itself, a larger one in a file


@dataclass(frozen=True)
class RunSpec:
    app: App
    run_id: str  # new at every start: a worker's cached state is of one run only
    checkpoint: str
    scratch: str  # a directory on the driver's machine, for the reader and the sink to talk; lost at the end
    draining: bool = True
    lifetime: str = "dt"
    policy: str = DEFAULT_POLICY
    settings: PolicySettings = field(default_factory=PolicySettings)
    batch_rows: int = BATCH_ROWS
    partitions: int | None = None  # None: one a core, as far as there are tasks
    inline_bytes: int = INLINE_BYTES
    memory: str = DEFAULT_MEMORY  # of all workers on a machine: a size, or a share of that machine
    links: Access | None = (
        None  # how streams from other nodes are read; with it, time is told to others at least so often:
    )
    tick_us: int = 250_000
    syncs: bool = True  # what is committed outlives a power cut, not only a kill
    warm_up: bool = False  # one batch without input, for nothing but to have everything started
    runtime: str = "kigen.lifetimes:TaskRuntime"  # module:class, so that tests can put another in its place

    def encode(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def decode(text: str) -> RunSpec:
        spec = pickle.loads(base64.b64decode(text))
        assert isinstance(spec, RunSpec)
        return spec

    @property
    def largest_rows(self) -> int:
        """How far batches of logs may grow; a size smaller than ours was set on purpose, and stays."""
        return min(self.batch_rows * (8 if self.batch_rows >= BATCH_ROWS else 1), rows_within(self.memory))

    @property
    def shortest_us(self) -> int | None:
        """The shortest deadline that is to be kept: a drain has none, it is to be over soon."""
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
        """Of the tasks whose slices run apart."""
        return sliced_tasks(self.app, self.policy, self.draining)

    def bucket(self, task: str) -> int:
        return bucket_of(task, next(i for i, t in enumerate(self.tasks) if t.name == task))

    def source(self, stream: str, started_us: int) -> Source:
        """`started_us` is when the first run on the checkpoint began, as its offsets say: live sources count from
        it."""
        declared = self.app.stream(stream)
        if declared.source.name == LINK:
            assert self.links is not None, "a stream from another node needs its node's server"
            return LinkSource(declared, self.links)
        return open_source(self.app.stream(stream), self.app.directory, self.draining, started_us)

    def sources(self, started_us: int) -> dict[str, Source]:
        """Of the streams that queries read; the others are not opened."""
        used = {stream for query in self.app.queries for stream in query.streams}
        return {stream.name: self.source(stream.name, started_us) for stream in self.app.streams if stream.name in used}

    def task_runtime(self, task: str) -> Any:
        module, _, name = (SLICED_RUNTIME if task in self.slices else self.runtime).partition(":")
        factory = getattr(importlib.import_module(module), name)
        return factory(next(t for t in self.tasks if t.name == task), self.app, self.lifetime)


def rows_within(memory: str) -> int:
    """Tuples of a batch, so that its input takes about an eighth of the limit."""
    return limit_bytes(memory) // (8 * TUPLE_BYTES)


def sliced_tasks(app: App, policy: str, draining: bool) -> dict[str, JoinSlices]:
    """Tasks whose shared join runs slice by slice: under a policy over slices, where plan and streams allow it."""
    if policy not in ADMITTED_NAMES or draining:
        return {}
    return {task.name: join_slices(task)[0] for task in extract_tasks(app) if why_together(task, app) is None}

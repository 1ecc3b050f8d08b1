"""Takes a stream into a task. It counts and drops late tuples; the others wait, in order of time, until time passes
them.

A tuple is late if an earlier tuple of the log has a timestamp more than the allowed lateness ahead of it. That depends
on the log alone, not on batches. All tuples of one instant are released in one step. If the log has partitions, each
is in order by itself (kigen.lifetimes.partitions), and tuples of one instant are in the order of partition and log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    FOREVER,
    Ints,
    Mask,
    StreamBlock,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.lifetimes.chunks import State
from kigen.lifetimes.late_rows import LateRows
from kigen.lifetimes.partitions import PARTITION, PartitionClock, Partitions
from kigen.plan.logical import LINK, SourceStream
from kigen.plan.types import arrow_schema


@dataclass
class StreamInput:
    """Input of one stream: tables of c0, c1, ... and `_ts`. A live source also reports until when it is complete."""

    tables: list[pa.Table] = field(default_factory=list)
    progress_us: int | None = None
    ended: bool = False
    # With `ended`, for a stream from another node: the last timestamp of the streams below it.
    last_us: int | None = None
    # Tuples before these were dropped: those that wait are not needed, and results are numbered from here on.
    jump: int | None = None
    # Instants at which time must halt, so that all readers of the same rows take the same steps.
    steps_us: list[int] = field(default_factory=list)
    # For a log of several partitions: those that exist at the end of the input. Its tables then have `_partition`.
    partitions: Partitions | None = None


class Intake:
    """Holds the tuples of one stream until time passes them."""

    def __init__(self, stream: SourceStream) -> None:
        self.stream = stream
        self._plain_schema = arrow_schema(stream.schema).append(pa.field("_ts", pa.int64()))
        self._parts: list[tuple[pa.RecordBatch, Ints]] = []  # waiting, in the order of the log
        self._in_order = True  # whether the waiting tuples are known to be in the order of time
        self._newest = BEFORE_TIME  # greatest timestamp so far
        self._clock = BEFORE_TIME  # watermark that a live source reports
        self._released = BEFORE_TIME
        self._sequence = 0
        self._last: int | None = None  # last timestamp, as another node reports it
        self._halting, self._steps = False, list[int]()  # whether time halts only at the given steps
        self._partitions: PartitionClock | None = None  # for a log of several partitions
        self.late = LateRows(stream)
        self.ended = False

    def take_in(self, given: StreamInput) -> tuple[int, int]:
        """Adds tuples. Returns how many were accepted and how many were late."""
        accepted = late = 0
        if given.jump is not None:
            self._forget()
        for table in given.tables:
            if table.num_rows:
                kept, dropped = self._add_partitioned(table) if PARTITION in table.column_names else self._add(table)
                accepted, late = accepted + kept, late + dropped
        if given.partitions is not None:
            clock = self._partition_clock()
            clock.settle(given.partitions)
            self._clock = max(self._clock, clock.watermark)
        if given.progress_us is not None:
            self._clock = max(self._clock, given.progress_us - self.stream.lateness_us)
        self.ended = self.ended or given.ended
        self._last = given.last_us if given.last_us is not None else self._last
        self._steps += given.steps_us
        self._halting = self._halting or bool(given.steps_us)
        return accepted, late

    def _forget(self) -> None:
        self._parts, self._steps = [], []

    def _add(self, table: pa.Table) -> tuple[int, int]:
        accepted = dropped = 0
        schema = arrow_schema(self.stream.schema)
        plain = table.schema == self._plain_schema
        for batch in table.to_batches():
            ts = np.asarray(batch.column("_ts").to_numpy(zero_copy_only=False), dtype=np.int64)
            if not len(ts):
                continue
            if plain:
                columns = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)
            else:
                columns = batch.select(schema.names)
                same = columns.schema.types == schema.types
                columns = pa.RecordBatch.from_arrays(columns.columns, schema=schema) if same else columns.cast(schema)
            newest = self._newest
            late = self._late(ts)
            if late is not None:
                self.late.add(batch, late, np.maximum.accumulate(np.maximum(ts, newest)))
                columns, ts = filter_columns(columns, ~late), ts[~late]
                dropped += int(late.sum())
            if len(ts):
                self._parts.append((columns, ts))
                accepted += len(ts)
        return accepted, dropped

    def _add_partitioned(self, table: pa.Table) -> tuple[int, int]:
        """Adds tuples with their partitions, which the waiting columns keep as numbers in a last column."""
        clock, accepted, dropped = self._partition_clock(), 0, 0
        schema = arrow_schema(self.stream.schema).append(pa.field(PARTITION, pa.int64()))
        for batch in table.to_batches():
            if not batch.num_rows:
                continue
            codes = clock.codes(batch.column(PARTITION))
            arrays = [batch.column(f.name).cast(f.type) for f in schema if f.name != PARTITION]
            columns = pa.RecordBatch.from_arrays([*arrays, pa.array(codes)], schema=schema)
            given = np.asarray(batch.column("_ts").to_numpy(zero_copy_only=False), dtype=np.int64)
            ts, late = clock.admit(given, codes, self._released)
            if late is not None:
                self.late.add(batch, late, clock.newest)
                columns, ts = filter_columns(columns, ~late), ts[~late]
                dropped += int(late.sum())
            if len(ts):
                self._parts.append((columns, ts))
                accepted += len(ts)
        self._newest = max(self._newest, clock.newest)
        return accepted, dropped

    def _partition_clock(self) -> PartitionClock:
        if self._partitions is None:
            self._partitions = PartitionClock(self.stream.lateness_us, raising=self.stream.timestamp is None)
        return self._partitions

    def hand_on(self, block: StreamBlock) -> None:
        """Adds tuples that another intake of the stream has released."""
        if len(block):
            self._parts.append((block.columns, block.at))
            self._in_order = False

    def leave_out(self, named: Callable[[Ints], Mask]) -> None:
        """Drops the waiting tuples whose timestamps are named."""
        masks = [~named(ts) for _, ts in self._parts]
        kept = [
            (filter_columns(columns, mask), ts[mask]) for (columns, ts), mask in zip(self._parts, masks, strict=True)
        ]
        self._parts = [part for part in kept if len(part[1])]

    def _late(self, ts: Ints) -> Mask | None:
        """Finds the late tuples among the next ones of the log. Returns None if none is late."""
        in_order = int(ts[0]) >= max(self._newest, self._released) and bool(np.all(ts[1:] >= ts[:-1]))
        if in_order:
            self._newest = int(ts[-1])
            return None
        self._in_order = False
        newest = np.maximum.accumulate(np.maximum(ts, self._newest))
        before = np.concatenate([[self._newest], newest[:-1]])
        self._newest = int(newest[-1])
        late = (ts < before - self.stream.lateness_us) | (ts < self._released)
        return late if bool(late.any()) else None

    @property
    def progress(self) -> int:
        """The watermark: no tuple still to come has an earlier timestamp."""
        if self.ended:
            return FOREVER
        # Of a link only watermark rows count: tuples beyond the end may be here before the end is known.
        if self.stream.source.name == LINK or self._partitions is not None:
            return self._clock
        return max(self._clock, self._newest - self.stream.lateness_us if self._newest != BEFORE_TIME else BEFORE_TIME)

    @property
    def wanted(self) -> int:
        """The time at which the first waiting tuple is released."""
        return min((int(ts.min()) + 1 for _, ts in self._parts), default=FOREVER)

    @property
    def next_event(self) -> int:
        """The earliest event that was taken in and lies beyond the end of the stream. The tuples of a stream all lie
        before its end, so there is none."""
        return FOREVER

    @property
    def last(self) -> int | None:
        """The last timestamp so far."""
        if self._last is not None:
            return self._last
        return None if self._newest == BEFORE_TIME else self._newest

    def release(self, now: int) -> StreamBlock:
        """Returns all tuples before `now`, in order of time, those of one instant in the order of the log."""
        self._released = now
        self._put_in_order()
        pieces: list[tuple[pa.RecordBatch, Ints]] = []
        while self._parts and self._parts[0][1][0] < now:
            columns, ts = self._parts.pop(0)
            if ts[-1] < now:
                pieces.append((columns, ts))
                continue
            split = int(np.searchsorted(ts, now, side="left"))
            pieces.append((columns.slice(0, split), ts[:split]))
            self._parts.insert(0, (columns.slice(split), ts[split:]))
            break
        columns, ts = self._joined(pieces)
        if self._partitions is not None and PARTITION in columns.schema.names:
            columns = columns.select(columns.schema.names[:-1])
        numbers = np.arange(self._sequence, self._sequence + len(ts))
        self._sequence += len(ts)
        return StreamBlock(columns, ts, numbers)

    def _put_in_order(self) -> None:
        """Orders the waiting tuples by time, those of one instant in the order of the log. Most logs are in order; then
        nothing is copied."""
        if self._partitions is not None:
            self._order_by_partition(self._partitions)
            return
        if self._in_order or not self._parts:
            return
        self._in_order = True
        inside = all(bool(np.all(ts[1:] >= ts[:-1])) for _, ts in self._parts)
        if inside and all(a[1][-1] <= b[1][0] for a, b in itertools.pairwise(self._parts)):
            return
        columns, ts = self._joined(self._parts)
        order = np.argsort(ts, kind="stable")
        self._parts = [(take_columns(columns, order), ts[order])]

    def _order_by_partition(self, clock: PartitionClock) -> None:
        if not self._parts:
            return
        columns, ts = self._joined(self._parts)
        ranks = clock.ranks(np.asarray(columns.column(PARTITION).to_numpy(zero_copy_only=False), np.int64))
        later = ts[1:] > ts[:-1]
        if not bool(np.all(later | ((ts[1:] == ts[:-1]) & (ranks[1:] >= ranks[:-1])))):
            order = np.lexsort((ranks, ts))  # stable: within a partition the order of the log stays
            columns, ts = take_columns(columns, order), ts[order]
        self._parts = [(columns, ts)]

    def _joined(self, parts: list[tuple[pa.RecordBatch, Ints]]) -> tuple[pa.RecordBatch, Ints]:
        if not parts:
            return empty_columns(self.stream.schema), no_ints()
        return concat_columns([c for c, _ in parts]), concat_ints([t for _, t in parts])

    def milestones(self, size: int) -> list[int]:
        """Returns the instants at which time must halt, and instants that cut a large number of waiting tuples into
        pieces of at most about `size` tuples, or that lie between two parts of the log."""
        asked = self._steps = [at for at in self._steps if at > self._released]
        if self._halting or self.held <= 2 * size:
            return asked
        self._put_in_order()
        return asked + [int(t) for _, ts in self._parts for t in ts[::size]]

    @property
    def held(self) -> int:
        return sum(len(ts) for _, ts in self._parts)

    def state(self) -> State:
        columns, ts = self._joined(self._parts)
        partitions = {} if self._partitions is None else {"partitions": self._partitions.state()}
        return partitions | {
            "columns": columns,
            "ts": ts,
            "newest": self._newest,
            "clock": self._clock,
            "released": self._released,
            "sequence": self._sequence,
            "ended": self.ended,
            "last": self._last,
            "steps": list(self._steps),
            "halting": self._halting,
        }

    def load(self, state: State) -> None:
        self._parts = [(state["columns"], state["ts"])] if len(state["ts"]) else []
        self._in_order = False
        self._newest, self._clock, self._released = state["newest"], state["clock"], state["released"]
        self._sequence, self.ended = state["sequence"], state["ended"]
        self._last, self._steps, self._halting = state["last"], list(state["steps"]), state["halting"]
        if "partitions" in state:
            self._partition_clock().load(state["partitions"])

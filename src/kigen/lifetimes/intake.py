"""Where a stream enters a task: late tuples are counted and dropped, the others wait, in order of time, until time passes them.

A tuple is late if an earlier one of the log lies more than the allowed lateness ahead of it: that depends on the log alone, not on
batches. All tuples of one instant are released in one step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kigen.lifetimes.alive import State
from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    FOREVER,
    Ints,
    StreamBlock,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    take_columns,
)
from kigen.plan.nodes import Stream
from kigen.plan.types import arrow_schema


@dataclass
class StreamInput:
    """What came of one stream: tables of c0, c1, ... and `_ts`; a live source also says up to when it is complete."""

    tables: list[pa.Table] = field(default_factory=list)
    progress_us: int | None = None
    ended: bool = False


class Intake:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._columns = empty_columns(stream.schema)
        self._ts: Ints = np.empty(0, dtype=np.int64)
        self._newest = BEFORE_TIME  # timestamp of any tuple so far
        self._clock = BEFORE_TIME  # of a live source
        self._released = BEFORE_TIME
        self._sequence = 0
        self.ended = False

    def take_in(self, given: StreamInput) -> tuple[int, int]:
        """Add tuples; gives how many were accepted and how many were late."""
        accepted = late = 0
        for table in given.tables:
            if table.num_rows:
                kept, dropped = self._add(table)
                accepted, late = accepted + kept, late + dropped
        if given.progress_us is not None:
            self._clock = max(self._clock, given.progress_us - self.stream.lateness_us)
        self.ended = self.ended or given.ended
        return accepted, late

    def _add(self, table: pa.Table) -> tuple[int, int]:
        ts = np.asarray(table.column("_ts").combine_chunks().to_numpy(zero_copy_only=False), dtype=np.int64)
        schema = arrow_schema(self.stream.schema)
        names = [f.name for f in schema]
        columns = table.select(names).combine_chunks().to_batches()[0].cast(schema) if names else pa.RecordBatch.from_arrays([], names=[])
        newest = np.maximum.accumulate(np.maximum(ts, self._newest))
        before = np.concatenate([[self._newest], newest[:-1]])
        late = (ts < before - self.stream.lateness_us) | (ts < self._released)
        self._newest = int(newest[-1])
        dropped = int(late.sum())
        if dropped:
            columns, ts = filter_columns(columns, ~late), ts[~late]
        if len(ts):
            full = [(c, t) for c, t in ((self._columns, self._ts), (columns, ts)) if len(t)]
            self._columns, self._ts = concat_columns([c for c, _ in full]), concat_ints([t for _, t in full])
        return len(ts), dropped

    @property
    def progress(self) -> int:
        """Every tuple still to come has this timestamp or a later one."""
        if self.ended:
            return FOREVER
        return max(self._clock, self._newest - self.stream.lateness_us if self._newest != BEFORE_TIME else BEFORE_TIME)

    @property
    def last(self) -> int | None:
        """The last timestamp so far."""
        return None if self._newest == BEFORE_TIME else self._newest

    def release(self, now: int) -> StreamBlock:
        """All tuples before `now`, in order of time, those of one instant in the order of the log."""
        self._released = now
        ts = self._ts
        if not bool(np.all(ts[1:] >= ts[:-1])):
            order = np.argsort(ts, kind="stable")
            self._columns, self._ts = take_columns(self._columns, order), ts[order]
            ts = self._ts
        split = int(np.searchsorted(ts, now, side="left"))
        numbers = np.arange(self._sequence, self._sequence + split)
        self._sequence += split
        block = StreamBlock(self._columns.slice(0, split), ts[:split], numbers)
        self._columns, self._ts = self._columns.slice(split), ts[split:]
        return block

    @property
    def held(self) -> int:
        return len(self._ts)

    def state(self) -> State:
        return {
            "columns": self._columns,
            "ts": self._ts,
            "newest": self._newest,
            "clock": self._clock,
            "released": self._released,
            "sequence": self._sequence,
            "ended": self.ended,
        }

    def load(self, state: State) -> None:
        self._columns, self._ts = state["columns"], state["ts"]
        self._newest, self._clock, self._released = state["newest"], state["clock"], state["released"]
        self._sequence, self.ended = state["sequence"], state["ended"]

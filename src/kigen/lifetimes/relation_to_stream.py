"""ISTREAM, DSTREAM and RSTREAM: they turn a relation back into a stream.

At each instant, births and deaths of equal rows cancel. The rest is what the relation gained (ISTREAM) or lost
(DSTREAM). RSTREAM gives the whole relation at each instant with such a rest, or at each multiple of its period. Tuples
of one instant are ordered by their columns, NULLs first, so that a ROWS window over the stream does not depend on
batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import BEFORE_TIME, Ints, StreamBlock, empty_columns, no_ints, take_columns
from kigen.lifetimes.chunks import Chunk, State
from kigen.lifetimes.keys.row_keys import row_keys
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorSpec
from kigen.lifetimes.sweeps.lifecycle import Events, Lifecycle
from kigen.lifetimes.sweeps.net_changes import net_changes
from kigen.lifetimes.sweeps.row_order import column_order
from kigen.plan.logical import StreamKind, ToStream


class ToStreamOperator(Operator):
    """Runs ISTREAM, DSTREAM and RSTREAM. RSTREAM keeps the live tuples in both methods."""

    def __init__(self, node: ToStream, signed: bool, secret: int = 0) -> None:
        self.node, self._secret = node, secret
        self._whole = node.kind is StreamKind.RSTREAM
        self._input = Lifecycle(node.schema, self._keys, signed, range(len(node.schema)), self._whole)
        self._sequence = 0
        self._now = BEFORE_TIME

    def _keys(self, columns: pa.RecordBatch, rows: int) -> Ints:
        return row_keys(columns, rows, range(len(self.node.schema)), self._secret)

    def step(self, inputs: list[Message], now: int) -> Message:
        before, self._now = self._now, now
        events = self._input.events(inputs[0], now)
        if self._whole:
            columns, at = self._relation(events, before, now)
        else:
            columns, at = self._difference(events)
        return self._numbered(columns, at)

    def _difference(self, events: Events) -> tuple[pa.RecordBatch, Ints]:
        sample, time, net = net_changes(events)
        copies = np.maximum(net if self.node.kind is StreamKind.ISTREAM else -net, 0)
        return take_columns(events.columns, np.repeat(sample, copies)), np.repeat(time, copies)

    def _relation(self, events: Events, before: int, now: int) -> tuple[pa.RecordBatch, Ints]:
        assert self._input.alive is not None
        assert self._input.dead is not None
        if self.node.every_us is None:
            _, time, net = net_changes(events)
            instants = np.unique(time[net != 0])
            if not len(instants):
                return empty_columns(self.node.schema), no_ints()
        rows = Chunk.concat([self._input.dead, self._input.alive.everything()], self.node.schema)
        if not len(rows):
            return empty_columns(self.node.schema), no_ints()
        begin, stop = np.maximum(rows.start, before), np.minimum(rows.end, now)
        if self.node.every_us is None:
            first, last = np.searchsorted(instants, begin), np.searchsorted(instants, stop)
            counts = np.maximum(last - first, 0)
            return take_columns(rows.columns, np.repeat(np.arange(len(rows)), counts)), instants[expand(first, counts)]
        every = self.node.every_us
        first, last = -(-begin // every), -(-stop // every)
        counts = np.maximum(last - first, 0)
        return take_columns(rows.columns, np.repeat(np.arange(len(rows)), counts)), expand(first, counts) * every

    def _numbered(self, columns: pa.RecordBatch, at: Ints) -> StreamBlock:
        if len(at) > 1:
            order = column_order([at], columns.columns)
            columns, at = take_columns(columns, order), at[order]
        first = self._sequence
        self._sequence += len(at)
        return StreamBlock(columns, at, np.arange(first, self._sequence))

    @property
    def next_event(self) -> int:
        due = self._input.next_death
        if self.node.every_us is not None and self._input.held:
            due = min(due, -(-self._now // self.node.every_us) * self.node.every_us)
        return due

    @property
    def held(self) -> int:
        return self._input.held

    @property
    def kept_of_inputs(self) -> tuple[Lifecycle, ...]:
        return (self._input,)

    def state(self) -> State:
        return {"input": self._input.state(), "sequence": self._sequence, "now": self._now}

    def load(self, state: State) -> None:
        self._input.load(state["input"], self._keys)
        self._sequence, self._now = state["sequence"], state["now"]


TO_STREAM = OperatorSpec(ToStream, lambda node, task: ToStreamOperator(node, task.signed, task.secret))

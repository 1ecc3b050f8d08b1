"""SHED ABOVE n PER SECOND BY expr: decides which tuples of a live stream are kept.

The reader uses it to count tuples, the workers to filter them, so both must agree. Time is cut into slots of `SLOT_US`.
How many tuples a slot may keep depends only on the arrivals in its second (kigen.schedule.LoadShedder). Within the slot
the most valuable tuples are kept. Invariant: whether a tuple is kept depends on the stream alone, not on batches, tasks
or restarts. So a replay gives the same tuples, and nothing has to be recorded. Cost: the tuples of a slot are created
and valued twice.

A pushed stream sheds when it takes a batch (`BatchShedding`), so its queue holds only what is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import pyarrow as pa

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.lifetimes.expressions.evaluation import evaluate
from kigen.plan.logical import Shed, SourceStream
from kigen.schedule.load_shedder import SECOND_US, LoadShedder, Mask

SLOT_US = 100_000
_KEPT_SLOTS = 64


class Shedding:
    """Decides for one stream which tuples are kept."""

    def __init__(self, stream: SourceStream, source: LiveSource) -> None:
        assert stream.shed is not None
        self._stream, self._source, self._shed = stream, source, stream.shed
        self._delay_us = -(source.complete_us(0) or 0)  # a tuple appears so long after its arrival: slots are cut then
        self._known: OrderedDict[int, tuple[int, Mask]] = OrderedDict()  # slot -> its first offset, which are kept

    def settled_us(self, now_us: int) -> int:
        """Returns the time up to which the decision is final: the end of the last whole slot."""
        return now_us // SLOT_US * SLOT_US

    def keeps(self, first: int, end: int) -> Mask:
        """Returns a mask of the tuples first..end-1 that are kept. Their slots must be over."""
        if end <= first:
            return np.zeros(0, bool)
        parts = []
        for slot in np.unique(self._appear_us(first, end) // SLOT_US).tolist():
            start, mask = self._slot(int(slot))
            parts.append(mask[max(0, first - start) : end - start])
        return np.concatenate(parts)

    def _slot(self, slot: int) -> tuple[int, Mask]:
        if slot not in self._known:
            self._known[slot] = self._decide(slot)
            if len(self._known) > _KEPT_SLOTS:
                self._known.popitem(last=False)
        return self._known[slot]

    def _decide(self, slot: int) -> tuple[int, Mask]:
        begins_us = slot * SLOT_US
        second_us = begins_us // SECOND_US * SECOND_US
        count = self._source.arrived_by
        shedder = LoadShedder(self._shed.above_per_second)
        for earlier_us in range(second_us, begins_us, SLOT_US):
            before = self._appear_us(count(earlier_us - 1), count(earlier_us + SLOT_US - 1))
            shedder.keep(before, now_us=earlier_us + SLOT_US - 1)
        first, end = count(begins_us - 1), count(begins_us + SLOT_US - 1)
        return first, shedder.keep(
            self._appear_us(first, end),
            _values(self._shed, self._source, self._stream, first, end),
            begins_us + SLOT_US - 1,
        )

    def _appear_us(self, first: int, end: int) -> Times:
        return self._source.arrivals_us(first, end) + self._delay_us


class BatchShedding:
    """Decides for a pushed stream which tuples of a batch are kept, when the batch comes."""

    _evaluating = threading.Lock()  # senders push from many threads, and expressions share a connection to DuckDB

    def __init__(self, shed: Shed) -> None:
        self._shed, self._shedder = shed, LoadShedder(shed.above_per_second)

    def __call__(self, table: pa.Table, arrived_us: int) -> Mask:
        """Returns a mask of the tuples that are kept. The table has the stream's columns."""
        arrivals = np.full(table.num_rows, arrived_us, np.int64)
        with self._evaluating:
            return self._shedder.keep(arrivals, _values_of(self._shed, table))


def shedding_of(stream: SourceStream, source: LiveSource) -> Shedding | None:
    """Returns what decides about a stream's tuples after they have arrived; None if all of them are kept."""
    return None if stream.shed is None or source.has_shed else Shedding(stream, source)


def _values(
    shed: Shed, source: LiveSource, stream: SourceStream, first: int, end: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    if shed.by is None:
        return None
    return _values_of(shed, source.read(source.piece(stream.name, first, end, None, False)).table)


def _values_of(shed: Shed, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    if shed.by is None:
        return None
    table = table.drop_columns([name for name in table.column_names if name.startswith("_")]).combine_chunks()
    batches = table.to_batches()
    if not batches:
        return np.zeros(0)
    values = evaluate(batches[0], table.num_rows, [shed.by])[0]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    floats = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(floats, np.float64)


def kept_arrivals(source: LiveSource, shedding: Shedding | None, first: int, end: int) -> tuple[Times, Times]:
    """Returns offsets and arrival times of those of the tuples first..end-1 that are kept."""
    offsets, arrivals = np.arange(first, end, dtype=np.int64), source.arrivals_us(first, end)
    kept_mask = source.due(first, end) if shedding is None else shedding.keeps(first, end)
    return (offsets, arrivals) if kept_mask is None else (offsets[kept_mask], arrivals[kept_mask])

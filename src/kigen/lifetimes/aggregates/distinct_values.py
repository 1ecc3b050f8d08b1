"""DISTINCT inside an aggregate: each different value of a group counts once, while any live tuple has it.

A count is kept for each pair of group and value. The first tuple with a value stands for its birth, the last one for
its death; the other events weigh nothing. Cost: one lookup of the pair per event, whatever the size of the window.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, no_ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.sweeps.sweep import group_runs
from kigen.plan.types import Column, Type


class DistinctValues:
    """Counts equal values within groups. `grouped`: there are several groups."""

    def __init__(self, type_: Type, grouped: bool, secret: int) -> None:
        value = (Column("value", type_),)
        self._grouped = grouped
        self._pairs = Groups((Column("group", Type.BIGINT), *value) if grouped else value, secret)
        self._counts: Ints = no_ints()  # live tuples, by pair

    def weights(self, slot: Ints, time: Ints, column: pa.Array, sign: Ints) -> Ints:
        """Returns the weight of each event: +1 where its value appears in the group, -1 where it vanishes, else 0."""
        out = np.zeros(len(slot), dtype=np.int64)
        here = np.arange(len(slot))
        if column.null_count:
            here = np.flatnonzero(np.asarray(column.is_valid().to_numpy(zero_copy_only=False)))
            slot, time, sign, column = slot[here], time[here], sign[here], column.take(pa.array(here))
        if not len(here):
            return out
        arrays = [pa.array(slot), column] if self._grouped else [column]
        columns = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
        pairs = self._pairs.assign(columns, len(here))
        self._counts = grown(self._counts, self._pairs.key_table.capacity)
        runs = group_runs(pairs, time)
        starts = np.flatnonzero(runs.first)
        touched = runs.slot[starts]
        initial = self._counts[touched]
        after = runs.cumulated(sign, self._counts)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[starts] = initial
        out[here[runs.sample()]] = (after > 0).astype(np.int64) - (before > 0)
        self._pairs.release(touched[self._counts[touched] == 0])
        return out

    @property
    def held(self) -> int:
        return len(self._pairs)

    def state(self) -> State:
        return {"pairs": self._pairs.state(), "counts": self._counts}

    def load(self, state: State) -> None:
        self._pairs.load(state["pairs"])
        self._counts = state["counts"].copy()

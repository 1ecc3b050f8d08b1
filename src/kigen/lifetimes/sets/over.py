"""ROW_NUMBER, RANK, DENSE_RANK, LAG and LEAD OVER (...): rows with a function of their place among the rows of a group.

The values depend only on how often each row occurs, so equal rows are copies of one row: which of them is the oldest
cannot be seen. At each instant at which a group changes, its rows are laid out in order, copy by copy, once before and
once after; where the value of a copy differs, the row with the old value leaves the result and the row with the new
value enters it. The result is counted like that of DISTINCT (kigen.lifetimes.sets.counting), so what leaves and enters
at one instant cancels, and a line is never cut because an equal row takes over.

Cost of a step: for each instant at which a group changes, all live rows of the group; and one pass over the slots of
all rows, to find those of the groups. This is not flat: a row at the front of an order moves all others, whose numbers
change. The layout is cut in time, so that it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, concat_columns, no_ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import different_slots, grown
from kigen.lifetimes.operator import Message
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.sets.counting import CountingOperator
from kigen.lifetimes.sets.places import Changes, GroupRows, changed_copies
from kigen.lifetimes.sweeps.lifecycle import Events, Lifecycle
from kigen.lifetimes.sweeps.sweep import group_runs
from kigen.lifetimes.sweeps.time_cuts import even_cuts
from kigen.plan.logical import Over
from kigen.plan.types import arrow_schema

_MOST_PLACES = 1 << 20  # of one layout


@dataclass(frozen=True)
class _Gains:
    """Rows of the result that enter (+1) or leave (-1), and when."""

    columns: pa.RecordBatch
    time: Ints
    sign: Ints


class OverOperator(CountingOperator):
    """Counts the rows of its input and the rows of its result, which have the values beside them."""

    def __init__(self, node: Over, task: OperatorContext) -> None:
        super().__init__(node, task, lambda left, right: left)
        self._over = node
        self._rows = Groups(node.child.schema, task.secret)
        self._inputs = [Lifecycle(node.child.schema, self._rows.assign, task.signed, ())]
        self._by = Groups(tuple(node.child.schema[column] for column in node.by), task.secret)
        self._alive: Ints = no_ints()  # copies of a row of the input, by slot
        self._serial: Ints = no_ints()  # serial number of the row whose group is known, by slot
        self._group: Ints = no_ints()  # group of the row, by slot
        self._rows_of_group: Ints = no_ints()  # different rows, by group

    def step(self, inputs: list[Message], now: int) -> Message:
        events = self._inputs[0].events(inputs[0], now)
        if not len(events):
            return self._nothing()
        self._describe(events.slot)
        gains = [gain for part in self._parts(events) if (gain := self._gains(part)) is not None]
        self._forget(different_slots(self._rows.key_table.capacity, events.slot))
        return self._counted(gains) if gains else self._nothing()

    # --- rows and groups ------------------------------------------------------------------------------------------

    def _describe(self, slots: Ints) -> None:
        """Finds the groups of rows that are new."""
        capacity = self._rows.key_table.capacity
        self._alive, self._group = grown(self._alive, capacity), grown(self._group, capacity)
        self._serial = grown(self._serial, capacity, -1)
        new = different_slots(capacity, slots[self._serial[slots] != self._rows.key_table.serial[slots]])
        if not len(new):
            return
        self._serial[new] = self._rows.key_table.serial[new]
        if self._over.by:
            arrays = [self._rows.column_of(column, new) for column in self._over.by]
            columns = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
            self._group[new] = self._by.assign(columns, len(new))
            self._rows_of_group = grown(self._rows_of_group, self._by.key_table.capacity)
            np.add.at(self._rows_of_group, self._group[new], 1)

    def _forget(self, touched: Ints) -> None:
        gone = touched[self._alive[touched] == 0]
        if self._over.by and len(gone):
            groups = self._group[gone]
            np.subtract.at(self._rows_of_group, groups, 1)
            empty = groups[self._rows_of_group[groups] == 0]
            self._by.release(different_slots(self._by.key_table.capacity, empty))
        self._serial[gone] = -1
        self._rows.release(gone)

    # --- changes --------------------------------------------------------------------------------------------------

    def _parts(self, events: Events) -> list[Events]:
        """Cuts the events in time, so that the layout of each part stays small."""
        if len(events) * (int(self._alive.sum()) + len(events)) <= _MOST_PLACES:
            return [events]
        group = self._group[events.slot]
        sizes = np.bincount(self._group, weights=self._alive).astype(np.int64) + np.bincount(
            group, minlength=int(self._group.max()) + 1
        )
        loads = sizes[group]
        cuts = np.searchsorted(even_cuts(events.time, loads, _MOST_PLACES), events.time, side="right")
        parts = [np.flatnonzero(cuts == part) for part in np.unique(cuts).tolist()]
        return [Events(events.columns, events.slot[p], events.time[p], events.sign[p]) for p in parts]

    def _gains(self, events: Events) -> _Gains | None:
        """Returns what one part changes, and counts its births and deaths."""
        capacity = self._rows.key_table.capacity
        chosen = np.zeros(int(self._group.max()) + 1, dtype=np.bool_)
        chosen[self._group[events.slot]] = True
        live = np.flatnonzero(self._alive > 0)
        slots = different_slots(capacity, live[chosen[self._group[live]]], events.slot)
        rows = GroupRows.of(self._over, slots, self._group[slots], self._rows.columns_of(slots), self._alive[slots])
        np.add.at(self._alive, events.slot, events.sign)
        changes = changed_copies(self._over, rows, events.slot, events.time, events.sign)
        if not len(changes.time):
            return None
        return _Gains(self._columns(changes), changes.time, changes.sign)

    def _columns(self, changes: Changes) -> pa.RecordBatch:
        schema = arrow_schema(self.node.schema)
        arrays = [*self._rows.columns_of(changes.slot).columns, *changes.values]
        typed = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=schema)

    def _counted(self, gains: list[_Gains]) -> Message:
        """Opens and closes rows of the result, as the number of their copies rises and falls."""
        columns = concat_columns([gain.columns for gain in gains])
        time, sign = (np.concatenate([getattr(gain, part) for gain in gains]) for part in ("time", "sign"))
        slots = self._groups.assign(columns, len(time))
        self._make_room()
        runs = group_runs(slots, time)
        rise = runs.total(sign)
        np.add.at(self._counts, runs.slot, rise)
        return self._result(runs, rise)

    # --- state ----------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return super().held + len(self._rows)

    def state(self) -> State:
        return super().state() | {"rows": self._rows.state(), "alive": self._alive}

    def load(self, state: State) -> None:
        super().load(state)
        self._rows.load(state["rows"])
        self._alive = state["alive"].copy()
        capacity = self._rows.key_table.capacity
        self._group, self._serial = np.zeros(capacity, dtype=np.int64), np.full(capacity, -1, dtype=np.int64)
        self._describe(np.flatnonzero(self._alive > 0))


OVER = OperatorSpec(Over, OverOperator)

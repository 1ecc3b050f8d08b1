"""ORDER BY ... LIMIT: the first rows of an order, of the whole relation or of each group.

A birth pushes the last of the first n rows out, if it comes before it; a death lets the next row in. So one question
per event is enough: which row is number n when the event's own row is left out (`kth_alive`). Changes of one row at one
instant add up, and equal rows are copies of one row: a line is never cut because another equal row takes over.

Without groups, only the *front* is looked at: the rows whose first key is not beyond a bound. The bound is chosen so
that the front has some sqrt(rows) rows more than needed; it is chosen again when deaths have used them up, or when the
front has grown too much. So a step costs its events and the front, not the window. With `LIMIT n BY`, the first n of
the rows that live throughout a step are asked of a tree of winners for each group that it touches
(kigen.lifetimes.sweeps.tournament): O(n log rows) per group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, Mask, no_ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import different_slots, grown
from kigen.lifetimes.operator import Message, as_block, as_signed
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.sets.counting import CountingOperator
from kigen.lifetimes.sweeps.kth_alive import kth_alive
from kigen.lifetimes.sweeps.leaves import Leaves
from kigen.lifetimes.sweeps.lifecycle import Events
from kigen.lifetimes.sweeps.row_order import coarse_key, row_ranks
from kigen.lifetimes.sweeps.sweep import Runs, changes, group_runs
from kigen.lifetimes.sweeps.tournament import Tournament
from kigen.plan.logical import TopN

NO_BOUND = np.iinfo(np.int64).max
_LEAST_FRONT, _PER_ROOT = 256, 2  # size of a new front: at least, and times the root of the rows
_TOO_LARGE = 4  # a front of so many times that size is cut


class TopOperator(CountingOperator):
    """Keeps the first rows of an order."""

    def __init__(self, node: TopN, task: OperatorContext) -> None:
        super().__init__(node, task, lambda left, right: left)
        self._top = node
        self._by = Groups(tuple(node.schema[column] for column in node.by), task.secret)
        self._serial: Ints = no_ints()  # serial number of the row that the arrays below describe, by slot
        self._coarse: Ints = no_ints()  # the first key as a number, by slot
        self._group: Ints = no_ints()  # group of the row, by slot
        self._rows_of_group: Ints = no_ints()  # different live rows, by group
        self._leaves = Leaves()  # live rows by group, for LIMIT BY
        self._tree = Tournament(self._leaves, self._ranks)
        self._bound = int(NO_BOUND)
        self._front: Ints = no_ints()  # live rows within the bound, when the last step ended

    def step(self, inputs: list[Message], now: int) -> Message:
        events = self._inputs[0].events(inputs[0], now)
        if not len(events):
            return self._nothing()
        self._grow(events)
        touched = self._different(events.slot)
        rows, mine = self._grouped(touched, events) if self._top.by else self._within_bound(events)
        runs, rise = self._runs(rows, mine)
        np.add.at(self._counts, events.slot, events.sign)
        opened, closed = self._changes(runs, rise)
        self._forget(touched[self._counts[touched] == 0])
        if self._top.by:
            self._return(touched[self._counts[touched] > 0])
        else:
            self._front = rows[self._counts[rows] > 0]
            if len(self._front) > _TOO_LARGE * self._wanted():
                self._choose_bound(self._front, self._wanted())
                self._front = self._front[self._coarse[self._front] <= self._bound]
        return as_signed(opened, closed) if self._signed else as_block(opened, closed)

    def _different(self, *slots: Ints) -> Ints:
        return different_slots(self._groups.key_table.capacity, *slots)

    # --- rows that may be among the first -------------------------------------------------------------------------

    def _grow(self, events: Events) -> None:
        """Describes the rows that are new."""
        self._make_room()
        capacity = self._groups.key_table.capacity
        self._coarse, self._group = grown(self._coarse, capacity), grown(self._group, capacity)
        self._serial = grown(self._serial, capacity, -1)
        slots = events.slot[self._serial[events.slot] != self._groups.key_table.serial[events.slot]]
        self._describe(self._different(slots))

    def _describe(self, slots: Ints) -> None:
        if not len(slots):
            return
        self._serial[slots] = self._groups.key_table.serial[slots]
        key = self._top.order[0]
        self._coarse[slots] = coarse_key(self._groups.column_of(key.column, slots), key)
        if self._top.by:
            arrays = [self._groups.column_of(column, slots) for column in self._top.by]
            columns = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
            self._group[slots] = self._by.assign(columns, len(slots))
            self._rows_of_group = grown(self._rows_of_group, self._by.key_table.capacity)
            np.add.at(self._rows_of_group, self._group[slots], 1)

    def _grouped(self, touched: Ints, events: Events) -> tuple[Ints, Events]:
        """Returns the rows of the groups that the step touches that may be among the first, and its events. The rows
        that it touches leave the trees."""
        live = touched[self._counts[touched] > 0]
        if len(live):
            self._tree.remove(self._leaves.spots(live, self._group[live]))
            self._leaves.remove(live, self._group[live])
        groups = different_slots(self._by.key_table.capacity, self._group[touched])
        return self._different(self._tree.first(groups, self._top.offset + self._top.limit), touched), events

    def _return(self, rows: Ints) -> None:
        """Lets rows into the trees of their groups."""
        if len(rows):
            capacity = self._groups.key_table.capacity
            changed, group, cleared = self._leaves.add(rows, self._group[rows], capacity, self._by.key_table.capacity)
            self._tree.key = self._coarse
            self._tree.add(self._leaves.spots(changed, group), cleared)

    def _ranks(self, rows: Ints) -> Ints:
        return row_ranks(self._groups.columns_of(rows).columns, self._top.order, np.zeros(len(rows), dtype=np.int64))

    def _within_bound(self, events: Events) -> tuple[Ints, Events]:
        """Returns the rows within the bound, and the events of these rows. Raises the bound first, if deaths would
        leave too few of them."""
        wanted = self._wanted()
        while True:
            near = self._coarse[events.slot] <= self._bound
            mine = events if bool(near.all()) else _filtered(events, near)
            if self._bound != NO_BOUND and self._enough(mine):
                return self._different(self._front, mine.slot), mine
            live = np.flatnonzero(self._counts > 0)
            if self._bound == NO_BOUND and len(live) <= _TOO_LARGE * wanted:
                return self._different(live, mine.slot), mine
            self._choose_bound(live, wanted)
            self._front = live[self._coarse[live] <= self._bound]
            wanted *= 4

    def _enough(self, events: Events) -> bool:
        """Whether the front has enough rows at every instant of the step."""
        order = np.lexsort((-events.sign, events.time))
        fewest = int(np.minimum.accumulate(np.cumsum(events.sign[order]))[-1]) if len(events) else 0
        return int(self._counts[self._front].sum()) + min(fewest, 0) >= self._top.offset + self._top.limit

    def _wanted(self) -> int:
        needed = self._top.offset + self._top.limit
        return max(_LEAST_FRONT, 4 * needed, _PER_ROOT * int(len(self._groups) ** 0.5))

    def _choose_bound(self, live: Ints, wanted: int) -> None:
        """Chooses the bound so that about `wanted` of the live rows are within it."""
        keys = self._coarse[live]
        self._bound = int(np.partition(keys, wanted)[wanted]) if len(keys) > wanted else int(NO_BOUND)

    # --- changes of the first rows --------------------------------------------------------------------------------

    def _runs(self, rows: Ints, events: Events) -> tuple[Runs, Ints]:
        """Returns by how many copies each row of the result rises (or falls), and when. `rows` are ordered."""
        ranks = self._ranks(rows)
        by_rank = np.empty_like(rows)
        by_rank[ranks] = rows
        live = np.flatnonzero(self._counts[rows] > 0)
        slot = np.concatenate([rows[live], events.slot])
        rank = np.concatenate([ranks[live], ranks[np.searchsorted(rows, events.slot)]])
        weight = np.concatenate([self._counts[rows[live]], events.sign])
        first = len(live)
        # Births come before deaths: at no moment are there fewer rows than at the end of the instant.
        time = np.concatenate([np.full(first, np.iinfo(np.int64).min), events.time])
        order = np.lexsort((-weight, time, self._group[slot])) if self._top.by else np.lexsort((-weight, time))
        since = None
        if self._top.by:
            begins = np.flatnonzero(changes(self._group[slot[order]]))
            since = np.repeat(begins, np.diff(np.append(begins, len(order))))
        rank, weight, time = rank[order], weight[order], time[order]
        asked = np.flatnonzero(order >= first)
        parts = [_pushed(rank, weight, asked, since, self._top.offset + self._top.limit, 1)]
        if self._top.offset:
            parts.append(_pushed(rank, weight, asked, since, self._top.offset, -1))
        found, places, rise = (np.concatenate([part[k] for part in parts]) for k in range(3))
        runs = group_runs(by_rank[found], time[places])
        return runs, runs.total(rise) if len(rise) else rise

    def _forget(self, gone: Ints) -> None:
        self._born[gone] = self._died[gone] = 0
        if self._top.by and len(gone):
            groups = self._group[gone]
            np.subtract.at(self._rows_of_group, groups, 1)
            empty = groups[self._rows_of_group[groups] == 0]
            self._by.release(different_slots(self._by.key_table.capacity, empty))
        self._groups.release(gone)

    def load(self, state: State) -> None:
        super().load(state)
        capacity = self._groups.key_table.capacity
        self._coarse, self._group = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
        self._serial = np.full(capacity, -1, dtype=np.int64)
        live = np.flatnonzero(self._counts > 0)
        self._describe(live)
        if self._top.by:
            self._leaves = Leaves()
            self._tree = Tournament(self._leaves, self._ranks)
            self._return(live)
        self._bound = int(NO_BOUND)
        self._front = no_ints()


def _filtered(events: Events, mask: Mask) -> Events:
    return Events(events.columns, events.slot[mask], events.time[mask], events.sign[mask])


def _pushed(
    rank: Ints, weight: Ints, asked: Ints, since: Ints | None, count: int, sign: int
) -> tuple[Ints, Ints, Ints]:
    """Returns the changes of the first `count` rows, one copy each: rank, place of the event, and +1 or -1 times
    `sign`. An event that is among the first brings its own row in (or takes it out), and the row that is number `count`
    without it goes the other way."""
    born = weight[asked] > 0
    after = np.where(born, asked, asked + 1)
    last = kth_alive(rank, weight, after, np.full(len(asked), count - 1), None if since is None else since[asked])
    own = rank[asked]
    among = (last < 0) | (own < last)
    pushes = among & (last >= 0)
    direction = np.where(born, sign, -sign)
    return (
        np.concatenate([own[among], last[pushes]]),
        np.concatenate([asked[among], asked[pushes]]),
        np.concatenate([direction[among], -direction[pushes]]),
    )


TOP = OperatorSpec(TopN, TopOperator)

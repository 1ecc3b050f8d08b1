"""GROUP BY and global aggregates. A group's row opens and closes where its values change, never at a batch boundary.

State: the keys and accumulators by slot, the id of the open row by slot, and (direct method, or aggregates that look at
live tuples) the key and argument columns of the live tuples. A group is forgotten when its last tuple dies. Cost per
step: one sort of its events; aggregates that choose one tuple add the logarithm of the group per event, and the others
of kigen.lifetimes.aggregates.living pass over all live tuples of the groups touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.aggregates.accumulators import ArgumentState, Positions, Result
from kigen.lifetimes.aggregates.arranged_input import ArrangedInput
from kigen.lifetimes.aggregates.arranged_rows import CHOSEN, Contest
from kigen.lifetimes.aggregates.distinct_values import DistinctValues
from kigen.lifetimes.aggregates.living import LIVING, Living, living_result
from kigen.lifetimes.aggregates.small_sweep import MOST_EVENTS, SmallSweep, as_ints
from kigen.lifetimes.aggregates.spreads import SPREADS
from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    FOREVER,
    HOLDER_BITS,
    NO_HOLDER,
    Block,
    Ints,
    Mask,
    Signed,
    absent,
)
from kigen.lifetimes.chunks import Chunk, State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.operator import Closed, Message, Opened, Operator, as_block, as_signed
from kigen.lifetimes.operator_spec import Columns, OperatorContext, OperatorSpec
from kigen.lifetimes.sweeps.lifecycle import Events, Lifecycle
from kigen.lifetimes.sweeps.sweep import Runs, changes, group_runs
from kigen.plan.logical import Agg, AggFunc, Aggregate
from kigen.plan.types import arrow_schema

_SUMS = (AggFunc.SUM, AggFunc.AVG, AggFunc.BOOL_AND, AggFunc.BOOL_OR, *SPREADS)
_Argument = tuple[int, bool]  # a child column, and whether each different value counts once


class AggregateOperator(Operator):
    """Runs an aggregate. `needed` are the key columns that something above reads."""

    def __init__(self, node: Aggregate, number: int, signed: bool, needed: set[int], secret: int = 0) -> None:
        self.node, self._signed, self._needed = node, signed, needed
        schema = node.child.schema
        # Child columns that live tuples must carry.
        self._kept = sorted(frozenset().union(*(a.columns for a in node.aggs)))
        self._groups = Groups(tuple(schema[k] for k in node.keys), secret)
        self._key_table = self._groups.key_table
        living = [a for a in node.aggs if a.func in LIVING]
        self._whole = any(a.func not in CHOSEN for a in living)  # live tuples are looked at one by one
        self._input = Lifecycle(schema, self._assign, signed, self._kept, bool(living))
        self._arranged: ArrangedInput | None = None
        if living and not self._whole:
            contests = dict.fromkeys(Contest.of(a) for a in living)
            self._input = self._arranged = ArrangedInput(schema, self._assign, signed, self._kept, contests)
        self._presence = [Lifecycle(w.schema, self._assign_global, signed, ()) for w in node.presence]
        self._rows: Ints = np.zeros(0, dtype=np.int64)  # live tuples, by slot
        self._present: Ints = np.zeros(0, dtype=np.int64)  # live tuples of the presence windows, by slot
        self._open: Ints = np.zeros(0, dtype=np.int64)  # id of the open row, or NO_HOLDER, by slot
        self._arguments = {
            (a.arg, a.distinct): self._argument(a.arg, a.distinct, secret)
            for a in node.aggs
            if a.arg is not None and a.func not in LIVING
        }
        self._small = SmallSweep.of(node, signed, self._kept)
        self._next_id = number << HOLDER_BITS
        self._now = BEFORE_TIME

    def _argument(self, column: int, distinct: bool, secret: int) -> ArgumentState:
        funcs = {a.func for a in self.node.aggs if (a.arg, a.distinct) == (column, distinct)}
        type_ = self.node.child.schema[column].type
        values = DistinctValues(type_, bool(self.node.keys), secret) if distinct else None
        return ArgumentState(type_, not funcs.isdisjoint(_SUMS), not funcs.isdisjoint(SPREADS), values)

    def _assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        if not self.node.keys:
            return self._assign_global(columns, rows)
        keys = columns.select(list(self.node.keys)).rename_columns([f"c{i}" for i in range(len(self.node.keys))])
        return self._groups.assign(keys, rows)

    def _assign_global(self, columns: pa.RecordBatch, rows: int) -> Ints:
        slot, _ = self._key_table.assign(np.zeros(min(rows, 1), dtype=np.int64))
        return np.repeat(slot, rows)

    def step(self, inputs: list[Message], now: int) -> Message:
        before, self._now = self._now, now
        rows = self._input.events(inputs[0], now)
        presence = [p.events(m, now) for p, m in zip(self._presence, inputs[1:], strict=True)]
        if not len(rows) and not any(len(p) for p in presence):
            return Signed.empty(self.node.schema) if self._signed else Block.empty(self.node.schema)
        slot = np.concatenate([rows.slot, *(p.slot for p in presence)]) if presence else rows.slot
        if self._small is not None and len(rows) <= MOST_EVENTS:
            block = self._small_step(self._small, rows)
            if block is not None:
                return block
        runs = group_runs(slot, np.concatenate([rows.time, *(p.time for p in presence)]))
        positions = Positions.of(runs)
        alive = self._alive(positions, rows, presence)
        results = self._results(positions, rows, presence, before)
        opened, closed = self._changes(positions, alive, results)
        if self._arranged is not None:
            self._arranged.settle(self._key_table.capacity)
        self._forget(positions)
        return as_signed(opened, closed) if self._signed else as_block(opened, closed)

    def _small_step(self, sweep: SmallSweep, rows: Events) -> Block | None:
        """Takes a step with few events. Returns None if it must be taken with arrays."""
        self._grow()
        found = sweep.run(rows, list(self._arguments.values()), self._rows, self._open, self._next_id)
        if found is None:
            return None
        self._next_id = found.next_id
        schema = arrow_schema(self.node.schema)
        keys = self._key_columns(as_ints(found.slot), schema)
        if found.emptied:
            self._groups.release(as_ints(found.emptied))
        return found.block(keys, schema)

    def _grow(self) -> None:
        capacity = self._key_table.capacity
        self._rows, self._present = grown(self._rows, capacity), grown(self._present, capacity)
        self._open = grown(self._open, capacity, NO_HOLDER)

    def _alive(self, positions: Positions, rows: Events, presence: list[Events]) -> Mask:
        """Returns at which positions the group has a row."""
        self._grow()
        others = sum(len(p) for p in presence)
        self._rows_before = self._rows.copy() if self._newly_null(rows) else self._rows
        count = positions.spread(np.concatenate([rows.sign, np.zeros(others, dtype=np.int64)]), self._rows)
        self._count = count
        if not self.node.presence:
            return count > 0
        present = np.concatenate([np.zeros(len(rows), dtype=np.int64), *(p.sign for p in presence)])
        return positions.spread(present, self._present) > 0

    def _newly_null(self, rows: Events) -> bool:
        """Whether an argument may get its first NULLs; from then on its count is kept apart. Presence events count as
        NULLs."""
        if self.node.presence:
            return True
        return any(
            a.count is None and rows.columns.column(self._kept.index(c)).null_count
            for (c, _), a in self._arguments.items()
        )

    def _results(self, positions: Positions, rows: Events, presence: list[Events], before: int) -> list[Result]:
        others = sum(len(p) for p in presence)
        events = rows
        if presence:  # presence events count as NULLs
            slot, time = (np.concatenate([getattr(e, part) for e in (rows, *presence)]) for part in ("slot", "time"))
            events = Events(rows.columns, slot, time, np.concatenate([rows.sign, np.zeros(others, dtype=np.int64)]))
        for (column, _), argument in self._arguments.items():
            array = rows.columns.column(self._kept.index(column))
            if others:
                array = pa.concat_arrays([array, pa.nulls(others, type=array.type)])
            argument.sweep(positions, array, events, (self._rows_before, self._count), self._key_table.capacity)
        living = self._living(positions, before)
        return [self._result(a, living) for a in self.node.aggs]

    def _result(self, agg: Agg, living: Living | None) -> Result:
        if agg.arg is None:
            count = self._count
            return Result(pa.array(count), np.concatenate([[True], count[1:] != count[:-1]]))
        if agg.func not in LIVING:
            return self._arguments[agg.arg, agg.distinct].result(agg)
        assert living is not None
        return living_result(agg, living)

    def _living(self, positions: Positions, before: int) -> Living | None:
        """Returns the tuples of touched groups that lived during this step and may be chosen, each as a range of
        positions; None if no aggregate asks for them."""
        if self._arranged is not None:
            return self._intervals(self._arranged.candidates(positions.slots), positions, before)
        if not self._whole:
            return None
        assert self._input.alive is not None
        assert self._input.dead is not None
        chunk = Chunk.concat([self._input.dead, self._input.alive.everything()], self._input.schema)
        return self._intervals(chunk, positions, before)

    def _intervals(self, chunk: Chunk, positions: Positions, before: int) -> Living:
        assert chunk.key is not None
        ordinal_of = np.full(self._key_table.capacity, -1, dtype=np.int64)
        ordinal_of[positions.slots] = np.arange(len(positions.slots))
        ordinal = ordinal_of[chunk.key]
        touched = ordinal >= 0
        chunk, ordinal = chunk.filter(touched), ordinal[touched]
        begin, stop = positions.before[ordinal], positions.stop[ordinal]
        born, dies = np.flatnonzero(chunk.start >= before), np.flatnonzero(chunk.end < self._now)
        begin[born] = _position(positions, ordinal[born], chunk.start[born])
        stop[dies] = _position(positions, ordinal[dies], chunk.end[dies])
        stands = np.ones(len(chunk), dtype=np.bool_)
        stands[born] = stands[dies] = False
        kept = {column: chunk.columns.column(i) for i, column in enumerate(self._kept)}
        columns = [kept.get(column) for column in range(len(self.node.child.schema))]
        return Living(columns, chunk.start, begin, stop, len(positions), ordinal, stands, positions.before)

    def _changes(self, positions: Positions, alive: Mask, results: list[Result]) -> tuple[Opened, Closed]:
        here = positions.where(alive, results)
        ordinal = np.searchsorted(positions.before, here, side="right") - 1
        slot, time = positions.slots[ordinal], positions.runs.time[here - ordinal - 1]
        is_alive, was_alive = alive[here], alive[here - 1]
        ids = np.where(is_alive, self._next_id + np.cumsum(is_alive) - 1, NO_HOLDER)
        self._next_id += int(is_alive.sum())
        first = changes(ordinal)
        starts, last = np.flatnonzero(first), np.flatnonzero(np.append(first[1:], True)[: len(first)])
        end, previous = np.empty_like(time), np.empty_like(ids)
        end[:-1], previous[1:] = time[1:], ids[:-1]
        end[last] = FOREVER
        previous[starts] = self._open[slot[starts]]
        self._open[slot[last]] = ids[last]
        opened = Opened(
            self._columns(slot[is_alive], here[is_alive], results), time[is_alive], end[is_alive], ids[is_alive]
        )
        if not self._signed:  # only rows of earlier steps have holders to fill
            was_alive, old = was_alive & first, None
        else:
            old = self._columns(slot[was_alive], here[was_alive] - 1, results)
        return opened, Closed(old, time[was_alive], previous[was_alive], first[was_alive])

    def _columns(self, slot: Ints, position: Ints, results: list[Result]) -> pa.RecordBatch:
        index = pa.array(position)
        schema = arrow_schema(self.node.schema)
        arrays = self._key_columns(slot, schema)
        arrays += [r.array.take(index) for r in results]
        typed = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=schema)

    def _key_columns(self, slot: Ints, schema: pa.Schema) -> list[pa.Array]:
        return [
            self._groups.column_of(k, slot) if k in self._needed else absent(schema.field(k).type, len(slot))
            for k in range(len(self.node.keys))
        ]

    def _forget(self, positions: Positions) -> None:
        slots = positions.slots
        empty = (self._rows[slots] == 0) & (self._present[slots] == 0)
        self._groups.release(slots[empty])

    @property
    def next_event(self) -> int:
        return min(lifecycle.next_death for lifecycle in (self._input, *self._presence))

    @property
    def held(self) -> int:
        own = len(self._key_table) + sum(a.held for a in self._arguments.values())
        return self._input.held + sum(p.held for p in self._presence) + own

    @property
    def kept_of_inputs(self) -> tuple[Lifecycle, ...]:
        return self._input, *self._presence

    def state(self) -> State:
        return {
            "input": self._input.state(),
            "presence": [p.state() for p in self._presence],
            "groups": self._groups.state(),
            "rows": self._rows,
            "present": self._present,
            "open": self._open,
            "arguments": {_saved_name(k): v.state() for k, v in self._arguments.items()},
            "next_id": self._next_id,
            "now": self._now,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._input.load(state["input"])
        for lifecycle, saved in zip(self._presence, state["presence"], strict=True):
            lifecycle.load(saved)
        self._groups.load(state["groups"])
        self._rows, self._present, self._open = (state[k].copy() for k in ("rows", "present", "open"))
        for key, argument in self._arguments.items():
            argument.load(state["arguments"][_saved_name(key)])
        self._next_id, self._now = state["next_id"], state["now"]


def _saved_name(argument: _Argument) -> str:
    column, distinct = argument
    return f"{column} distinct" if distinct else str(column)


def _position(positions: Positions, ordinal: Ints, time: Ints) -> Ints:
    """Returns the position after the run at (slot, time), and an arbitrary one where there is no such run."""
    runs: Runs = positions.runs
    first = int(runs.time.min())
    at, wanted_at = runs.time - first, time - first
    width = int(at.max()) + 1
    if len(positions.slots) * width > FOREVER:  # ranks are smaller than times
        times = np.unique(runs.time)
        width = len(times) + 1
        at, wanted_at = np.searchsorted(times, runs.time), np.searchsorted(times, time)
    run_key = (np.cumsum(runs.first) - 1) * width + at
    found = np.minimum(np.searchsorted(run_key, ordinal * width + wanted_at), len(runs) - 1)
    return positions.of_run[found]


def _build(node: Aggregate, task: OperatorContext) -> AggregateOperator:
    return AggregateOperator(node, task.number, task.signed, task.needed, task.secret)


def _needs(node: Aggregate, needed: Columns) -> list[Columns]:
    return [set(node.keys).union(*(agg.columns for agg in node.aggs)), *(set() for _ in node.presence)]


AGGREGATE = OperatorSpec(Aggregate, _build, _needs)

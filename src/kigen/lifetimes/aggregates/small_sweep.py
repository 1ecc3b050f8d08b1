"""Sweeps the few events of a small step one by one, with Python's numbers, where array operations cost more.

It takes COUNT, SUM and AVG of the direct method, without presence windows and decimals. Invariant: the result and the
state are those of the sweep over arrays (kigen.lifetimes.aggregates.accumulators). Where they might not be, `run`
returns None before it has changed anything: special values, the first NULL of a column, sums beyond a type's range.
Cost: a few microseconds per event, instead of some 300 per step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.aggregates.accumulators import ArgumentState
from kigen.lifetimes.aggregates.exact_sums import double_parts, few_limbs, integer_parts
from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Ints
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.sweeps.lifecycle import Events
from kigen.plan.logical import Agg, AggFunc, Aggregate
from kigen.plan.types import Type

MOST_EVENTS = 16
_PLAIN = (AggFunc.COUNT_STAR, AggFunc.COUNT, AggFunc.SUM, AggFunc.AVG)
_LARGEST = 2**63
Parts = list[tuple[int, int]]  # limbs of a value: grid position, units


@dataclass
class SmallChanges:
    """Rows that open, with their lifetimes, ids and results, holders that are filled, and slots that are empty now."""

    slot: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    id: list[int] = field(default_factory=list)
    results: list[tuple[Any, ...]] = field(default_factory=list)
    filled: list[int] = field(default_factory=list)
    death: list[int] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)
    next_id: int = 0

    def block(self, keys: list[pa.Array], schema: pa.Schema) -> Block:
        """Returns the changes as a block. `keys` are the first columns of `schema`, the results are the others."""
        kinds = schema.types[len(keys) :]
        values = zip(*self.results, strict=True) if self.results else [()] * len(kinds)
        arrays = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
        end = as_ints(self.end)
        holder = np.where(end == FOREVER, as_ints(self.id), NO_HOLDER)
        fills = Fills(as_ints(self.filled), as_ints(self.death))
        columns = pa.RecordBatch.from_arrays([*keys, *arrays], schema=schema)
        return Block(columns, as_ints(self.start), end, holder, fills)


class _Column:
    """An argument column in one step: its values in units of the lowest limb, and its state."""

    def __init__(self, state: ArgumentState, values: list[Any], capacity: int) -> None:
        self.state = state
        if state.count is not None:
            state.count = grown(state.count, capacity)
        self.valid = [value is not None for value in values]
        self.parts: list[Parts] = []
        self.lowest, self.units = 0, [0] * len(values)
        if state.summed:
            cut = double_parts if state.type is Type.DOUBLE else integer_parts
            self.parts = [[] if value is None else cut(value) for value in values]
            self.limbs = few_limbs(state.limbs, [grid for parts in self.parts for grid, _ in parts], capacity)
            self.lowest = min(self.limbs, default=0)
            self.units = [sum(n << 32 * (grid - self.lowest) for grid, n in parts) for parts in self.parts]

    def count_before(self, slot: int, rows: int) -> int:
        return rows if self.state.count is None else int(self.state.count[slot])

    def total_before(self, slot: int) -> int:
        if not self.state.summed:
            return 0
        return sum(int(limb[slot]) << 32 * (grid - self.lowest) for grid, limb in self.limbs.items())

    def write(self, slots: list[int], signs: list[int]) -> None:
        if self.state.count is not None:
            for slot, sign, valid in zip(slots, signs, self.valid, strict=True):
                self.state.count[slot] += sign if valid else 0
        if self.state.summed:
            self.state.limbs = self.limbs
            for slot, sign, parts in zip(slots, signs, self.parts, strict=True):
                for grid, n in parts:
                    self.limbs[grid][slot] += sign * n


class _Unsure(Exception):
    """The sweep over arrays must answer."""


class SmallSweep:
    """Sweeps small steps of one aggregate."""

    def __init__(self, aggs: Sequence[Agg], kept: Sequence[int]) -> None:
        """`kept` are the child columns of the events, in their order."""
        arguments = list(dict.fromkeys(agg.arg for agg in aggs if agg.arg is not None))
        self._columns = [kept.index(column) for column in arguments]
        self._aggs = [(agg, None if agg.arg is None else arguments.index(agg.arg)) for agg in aggs]

    @staticmethod
    def of(node: Aggregate, signed: bool, kept: Sequence[int]) -> SmallSweep | None:
        """Returns None if an aggregate of the node is not taken."""
        plain = all(agg.func in _PLAIN and agg == Agg(agg.func, agg.arg, agg.type) for agg in node.aggs)
        decimal = any(node.child.schema[a.arg].type.is_decimal for a in node.aggs if a.arg is not None)
        plain = plain and not decimal
        return SmallSweep(node.aggs, kept) if plain and not signed and not node.presence else None

    def run(
        self, events: Events, arguments: Sequence[ArgumentState], rows: Ints, open_ids: Ints, first_id: int
    ) -> SmallChanges | None:
        """Adds the events to the state by slot: live tuples `rows`, ids of open rows `open_ids`, and `arguments`, in
        the order in which the aggregates name them. New rows get ids from `first_id` on.
        """
        try:
            columns = [
                self._column(events, place, state, len(rows))
                for place, state in zip(self._columns, arguments, strict=True)
            ]
            slots, times, signs = events.slot.tolist(), events.time.tolist(), events.sign.tolist()
            out = SmallChanges(next_id=first_id)
            counts: dict[int, int] = {}
            opened: dict[int, int] = {}
            at, order = 0, sorted(range(len(slots)), key=lambda i: (slots[i], times[i]))
            while at < len(order):
                stop = at + 1
                while stop < len(order) and slots[order[stop]] == slots[order[at]]:
                    stop += 1
                slot = slots[order[at]]
                counts[slot] = self._group(slot, order[at:stop], times, signs, columns, rows, open_ids, opened, out)
                at = stop
        except (_Unsure, OverflowError):
            return None
        for column in columns:
            column.write(slots, signs)
        for slot, count in counts.items():
            rows[slot] = count
            if not count:
                out.emptied.append(slot)
        for slot, number in opened.items():
            open_ids[slot] = number
        return out

    @staticmethod
    def _column(events: Events, place: int, state: ArgumentState, capacity: int) -> _Column:
        array = events.columns.column(place)
        if array.null_count and state.count is None:
            raise _Unsure
        if not state.summed and not array.null_count:
            return _Column(state, [True] * len(array), capacity)
        return _Column(state, array.to_pylist(), capacity)

    def _group(
        self,
        slot: int,
        order: list[int],
        times: list[int],
        signs: list[int],
        columns: list[_Column],
        rows: Ints,
        open_ids: Ints,
        opened: dict[int, int],
        out: SmallChanges,
    ) -> int:
        """Sweeps the events of one slot, which are ordered by time. Returns how many tuples live after them."""
        count = int(rows[slot])
        state = [(column.count_before(slot, count), column.total_before(slot)) for column in columns]
        before, alive = self._results(count, state, columns), count > 0
        changed = False
        for place, event in enumerate(order):
            sign = signs[event]
            count += sign
            state = [
                (valid + sign, total + sign * column.units[event]) if column.valid[event] else (valid, total)
                for column, (valid, total) in zip(columns, state, strict=True)
            ]
            time = times[event]
            if place + 1 < len(order) and times[order[place + 1]] == time:
                continue  # all events of an instant act together
            after, is_alive = self._results(count, state, columns), count > 0
            if (is_alive and after != before) or is_alive != alive:
                if not changed and alive:
                    out.filled.append(int(open_ids[slot]))
                    out.death.append(time)
                elif changed and alive:
                    out.end[-1] = time
                changed = True
                opened[slot] = NO_HOLDER
                if is_alive:
                    self._open(slot, time, after, opened, out)
            before, alive = after, is_alive
        return count

    @staticmethod
    def _open(slot: int, time: int, results: tuple[Any, ...], opened: dict[int, int], out: SmallChanges) -> None:
        out.slot.append(slot)
        out.start.append(time)
        out.end.append(int(FOREVER))
        out.id.append(out.next_id)
        out.results.append(results)
        opened[slot] = out.next_id
        out.next_id += 1

    def _results(self, count: int, state: list[tuple[int, int]], columns: list[_Column]) -> tuple[Any, ...]:
        """Returns the values of the aggregates, None for NULL."""
        values: list[Any] = []
        for agg, argument in self._aggs:
            if argument is None:
                values.append(count)
                continue
            valid, total = state[argument]
            if agg.func is AggFunc.COUNT:
                values.append(valid)
            elif not valid:
                values.append(None)
            elif agg.func is AggFunc.SUM and agg.type is Type.BIGINT:
                if not -_LARGEST <= total < _LARGEST:
                    raise _Unsure
                values.append(total)
            else:
                nearest = math.ldexp(float(total), 32 * columns[argument].lowest)
                values.append(nearest if agg.func is AggFunc.SUM else nearest / valid)
        return tuple(values)


def as_ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)

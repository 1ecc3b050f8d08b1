"""Values per group that a sweep adds up: counts and exact sums. State is an array by slot; results are given at every
position.

A *position* is a state of a group: before the step, or after one of its runs. Results are computed at all positions at
once, so a change is a difference between neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.aggregates import decimals, exact_sums
from kigen.lifetimes.aggregates.distinct_values import DistinctValues
from kigen.lifetimes.aggregates.spreads import SPREADS, spread_of, squares
from kigen.lifetimes.blocks import Ints, Mask, no_ints
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.sweeps.lifecycle import Events
from kigen.lifetimes.sweeps.sweep import Runs
from kigen.plan.logical import NULL_ON_OVERFLOW, Agg, AggFunc
from kigen.plan.types import LARGEST_PRECISION, Type


@dataclass(frozen=True)
class Positions:
    """Positions of the groups that a step touches. A group's first position is its state before the step; one more
    follows after each run."""

    runs: Runs
    of_run: Ints  # position after each run
    before: Ints  # position before the step, by the slot's ordinal
    stop: Ints  # first position after those of the slot, by ordinal
    slots: Ints  # touched slots, by ordinal

    @staticmethod
    def of(runs: Runs) -> Positions:
        ordinal = np.cumsum(runs.first) - 1
        of_run = np.arange(len(runs)) + ordinal + 1
        starts = np.flatnonzero(runs.first)
        before = starts + np.arange(len(starts))
        stop = np.append(before[1:], len(runs) + len(starts))
        return Positions(runs, of_run, before, stop, runs.slot[starts])

    def __len__(self) -> int:
        return len(self.runs) + len(self.slots)

    def spread(self, per_event: Ints, by_slot: Ints) -> Ints:
        """Returns the running total at every position, and updates `by_slot`. It needs one cumulative sum, as in
        `Runs.cumulated`."""
        total = self.runs.total(per_event)
        initial = by_slot[self.slots]
        final = initial + np.add.reduceat(total, self.before - np.arange(len(self.slots)))
        out = np.empty(len(self), dtype=np.int64)
        out[self.of_run] = total
        out[self.before] = initial
        out[self.before[1:]] -= final[:-1]
        by_slot[self.slots] = final
        return np.cumsum(out, out=out)

    def where(self, alive: Mask, results: list[Result]) -> Ints:
        """Returns the positions at which a group's row appears, vanishes or changes its values."""
        differs = results[0].differs.copy() if results else np.zeros(len(self), dtype=np.bool_)
        for result in results[1:]:
            differs |= result.differs
        changed = alive & differs
        changed[1:] |= alive[1:] != alive[:-1]
        changed[self.before] = False
        return np.flatnonzero(changed)

    def constant(self, by_slot: Ints) -> Ints:
        """Returns the value at every position of a state that no event changes."""
        return np.repeat(by_slot[self.slots], self.stop - self.before)


@dataclass(frozen=True)
class Result:
    """An aggregate at every position, as Arrow, and whether it differs from the position before."""

    array: pa.Array
    differs: Mask


def differs(values: np.ndarray[Any, Any], null: Mask) -> Mask:
    """Returns where a value differs from the one before; true for the first."""
    out = np.ones(len(values), dtype=np.bool_)
    same = values[1:] == values[:-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[1:]) & np.isnan(values[:-1])
    out[1:] = (null[1:] != null[:-1]) | (~null[1:] & ~same)
    return out


class ArgumentState:
    """State of all aggregates of one argument column: the number of values that are not NULL, their exact sum and the
    exact sum of their squares. With `distinct`, each different value counts once."""

    def __init__(
        self, type_: Type, summed: bool, squared: bool = False, distinct: DistinctValues | None = None
    ) -> None:
        self.type, self.summed, self.squared, self.distinct = type_, summed, squared, distinct
        # By slot; None: there was no NULL yet, so it equals the number of tuples.
        self.count: Ints | None = None if distinct is None else no_ints()
        self.limbs: dict[int, Ints] = {}
        self.square_limbs: dict[int, Ints] = {}
        self._counts: Ints = no_ints()
        self._sums: dict[int, Ints] = {}
        self._squares: dict[int, Ints] = {}

    def sweep(
        self, positions: Positions, column: pa.Array, events: Events, rows: tuple[Ints, Ints], capacity: int
    ) -> None:
        """Adds the events of a step. `column` is the argument of each event. `rows` are the numbers of live tuples: by
        slot before the step, and at every position."""
        weight = events.sign
        if column.null_count and self.count is None:
            self.count = rows[0].copy()
        if self.count is None:
            self._counts = rows[1]
        else:
            self.count = grown(self.count, capacity)
            if self.distinct is not None:
                weight = self.distinct.weights(events.slot, events.time, column, weight)
            elif column.null_count:
                weight = weight * np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.int64)
            self._counts = positions.spread(weight, self.count)
        if not self.summed:
            return
        if self.type.is_decimal:
            self._sums = _spread(positions, decimals.limbs_of(column), weight, self.limbs, capacity)
            return
        filled = pc.fill_null(column, 0) if column.null_count else column
        values = np.asarray(filled.to_numpy(zero_copy_only=False))
        if self.type is Type.DOUBLE:
            parts = exact_sums.limbs_of_doubles(values)
        else:
            parts = exact_sums.limbs_of_integers(values)
        self._sums = _spread(positions, parts, weight, self.limbs, capacity)
        if self.squared:
            self._squares = _spread(positions, squares(values), weight, self.square_limbs, capacity)

    def result(self, agg: Agg) -> Result:
        func, counts = agg.func, self._counts
        if func is AggFunc.COUNT:
            return Result(pa.array(counts), differs(counts, np.zeros(len(counts), dtype=np.bool_)))
        null = counts == 0
        values: np.ndarray[Any, Any]
        if func is AggFunc.SUM and self.type.is_decimal:
            kind = pa.decimal128(LARGEST_PRECISION, self.type.scale)
            return Result(*decimals.sums_of(self._sums, null, kind, agg.parameter == NULL_ON_OVERFLOW))
        if func in SPREADS:
            values, null = spread_of(func, counts, self._sums, self._squares)
        elif self.type is Type.BIGINT and func is not AggFunc.AVG:
            values, overflow = exact_sums.to_integers(self._sums, len(counts))
            if func is AggFunc.BOOL_AND:
                values = values == counts
            elif func is AggFunc.BOOL_OR:
                values = values > 0
            elif agg.parameter == NULL_ON_OVERFLOW:
                null = null | overflow
            elif bool((overflow & ~null).any()):
                raise EvaluationError("SUM exceeds BIGINT; sum CAST(... AS DOUBLE) instead")
        else:
            values = exact_sums.to_doubles(self._sums, len(counts))
            if func is AggFunc.AVG:
                values = values / np.where(null, 1, counts) / 10.0**self.type.scale
        return Result(pa.array(values, mask=null), differs(values, null))

    @property
    def held(self) -> int:
        return 0 if self.distinct is None else self.distinct.held

    def state(self) -> dict[str, Any]:
        saved: dict[str, Any] = {"count": self.count, "limbs": _saved(self.limbs)}
        if self.squared:
            saved["squares"] = _saved(self.square_limbs)
        if self.distinct is not None:
            saved["distinct"] = self.distinct.state()
        return saved

    def load(self, state: dict[str, Any]) -> None:
        self.count = None if state["count"] is None else state["count"].copy()
        self.limbs = _loaded(state["limbs"])
        self.square_limbs = _loaded(state.get("squares", {}))
        if self.distinct is not None:
            self.distinct.load(state["distinct"])


def _spread(
    positions: Positions, parts: exact_sums.Limbs, weight: Ints, limbs: exact_sums.Limbs, capacity: int
) -> exact_sums.Limbs:
    """Adds the events' parts to the sums by slot, and returns the sums at every position."""
    out: exact_sums.Limbs = {}
    for grid in parts.keys() | limbs.keys():
        by_slot = limbs[grid] = grown(limbs.get(grid, no_ints()), capacity)
        if grid in parts:
            out[grid] = positions.spread(parts[grid] * weight, by_slot)
        else:
            out[grid] = positions.constant(by_slot)
    return out


def _saved(limbs: exact_sums.Limbs) -> dict[str, Ints]:
    return {str(k): v for k, v in limbs.items() if v.any()}


def _loaded(saved: dict[str, Ints]) -> exact_sums.Limbs:
    return {int(k): v.copy() for k, v in saved.items()}

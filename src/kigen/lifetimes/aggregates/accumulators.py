"""Values per group that a sweep adds up: counts, exact sums, greatest and least. State is an array by slot; results are
given at every position.

A *position* is a state of a group: before the step, or after one of its runs. Results are computed at all positions at
once, so a change is a difference between neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.aggregates import exact_sums
from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.sweeps.sweep import Runs
from kigen.plan.logical import AggFunc
from kigen.plan.types import Type

_Number = TypeVar("_Number", np.int64, np.int32)


def grown(
    array: np.ndarray[Any, np.dtype[_Number]], capacity: int, fill: int = 0
) -> np.ndarray[Any, np.dtype[_Number]]:
    """Extends an array to `capacity` with `fill`."""
    if len(array) >= capacity:
        return array
    return np.concatenate([array, np.full(capacity - len(array), fill, dtype=array.dtype)])


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


def _differs(values: np.ndarray[Any, Any], null: Mask) -> Mask:
    out = np.ones(len(values), dtype=np.bool_)
    same = values[1:] == values[:-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[1:]) & np.isnan(values[:-1])
    out[1:] = (null[1:] != null[:-1]) | (~null[1:] & ~same)
    return out


class ArgumentState:
    """State of all aggregates of one argument column: the number of values that are not NULL, and their exact sum."""

    def __init__(self, type_: Type | None, summed: bool) -> None:
        self.type, self.summed = type_, summed
        self.count: Ints | None = None  # by slot; None: there was no NULL yet, so it equals the number of tuples
        self.limbs: dict[int, Ints] = {}
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._sums: dict[int, Ints] = {}

    def sweep(self, positions: Positions, column: pa.Array, sign: Ints, rows: tuple[Ints, Ints], capacity: int) -> None:
        """Adds the events of a step. `rows` are the numbers of live tuples: by slot before the step, and at every
        position."""
        weight = sign
        if column.null_count and self.count is None:
            self.count = rows[0].copy()
        if self.count is None:
            self._counts = rows[1]
        else:
            self.count = grown(self.count, capacity)
            if column.null_count:
                weight = sign * np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.int64)
            self._counts = positions.spread(weight, self.count)
        if not self.summed:
            return
        parts = self._limbs(column)
        for grid in parts.keys() | self.limbs.keys():
            state = self.limbs[grid] = grown(self.limbs.get(grid, np.zeros(0, dtype=np.int64)), capacity)
            if grid in parts:
                self._sums[grid] = positions.spread(parts[grid] * weight, state)
            else:
                self._sums[grid] = positions.constant(state)

    def _limbs(self, column: pa.Array) -> exact_sums.Limbs:
        filled = pc.fill_null(column, 0) if column.null_count else column
        values = np.asarray(filled.to_numpy(zero_copy_only=False))
        return exact_sums.limbs_of_doubles(values) if self.type is Type.DOUBLE else exact_sums.limbs_of_integers(values)

    def result(self, func: AggFunc) -> Result:
        counts = self._counts
        if func is AggFunc.COUNT:
            return Result(pa.array(counts), _differs(counts, np.zeros(len(counts), dtype=np.bool_)))
        null = counts == 0
        values: np.ndarray[Any, Any]
        if func is AggFunc.SUM and self.type is Type.BIGINT:
            values, overflow = exact_sums.to_integers(self._sums, len(counts))
            if bool((overflow & ~null).any()):
                raise EvaluationError("SUM exceeds BIGINT; sum CAST(... AS DOUBLE) instead")
        else:
            values = exact_sums.to_doubles(self._sums, len(counts))
            if func is AggFunc.AVG:
                values = values / np.where(null, 1, counts)
        return Result(pa.array(values, mask=null), _differs(values, null))

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "limbs": {str(k): v for k, v in self.limbs.items() if v.any()}}

    def load(self, state: dict[str, Any]) -> None:
        self.count = None if state["count"] is None else state["count"].copy()
        self.limbs = {int(k): v.copy() for k, v in state["limbs"].items()}


def ranked(column: pa.Array) -> tuple[Ints, pa.Array]:
    """Returns ranks (0 is the least, -1 stands for NULL) and the distinct values by rank. NaN is the greatest; strings
    compare as UTF-8 bytes."""
    if pa.types.is_boolean(column.type):
        ranks, values = ranked(column.cast(pa.int8()))
        return ranks, values.cast(pa.bool_())
    encoded = column.dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    values = encoded.dictionary
    if pa.types.is_floating(values.type):
        order = np.argsort(values.to_numpy(zero_copy_only=False), kind="stable")
    else:
        order = np.asarray(pc.sort_indices(values).to_numpy(zero_copy_only=False), dtype=np.int64)
    rank_of = np.empty(len(order) + 1, dtype=np.int64)
    rank_of[order] = np.arange(len(order))
    rank_of[-1] = -1  # code -1: NULL
    return rank_of[codes], values.take(pa.array(order))


def extreme(column: pa.Array, paint: Callable[[Ints], Ints], least: bool) -> Result:
    """Computes MIN or MAX at every position. `paint` returns the greatest live rank at each position, -1 where there is
    none."""
    ranks, values = ranked(column)
    top = len(values) - 1
    if least:
        ranks = np.where(ranks >= 0, top - ranks, -1)
    best = paint(ranks)
    null = best < 0
    index = np.where(null, 0, top - best if least else best)
    array = values.take(pa.array(index, mask=null)) if len(values) else pa.nulls(len(best), type=values.type)
    return Result(array, _differs(best, null))

"""Aggregates that look at the live tuples themselves: MIN, MAX, MEDIAN, quantile_cont, arg_min, arg_max, first, last,
string_agg.

Each live tuple of a group that the step touches covers a range of positions. MIN, MAX, arg_min, arg_max, first and last
paint the best rank over these ranges; a quantile asks for the k-th live rank; string_agg lists the tuples of every
position. Cost: the live tuples of the groups touched, so these aggregates are not flat in the window's size; the
results of string_agg are as long as the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.aggregates.accumulators import Result, differs
from kigen.lifetimes.aggregates.range_max import greatest
from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.kth_alive import kth_alive
from kigen.lifetimes.sweeps.row_order import ranked, row_ranks
from kigen.plan.logical import Agg, AggFunc, SortKey

_EXTREMES = (AggFunc.MIN, AggFunc.MAX)
_CHOICES = (AggFunc.ARG_MIN, AggFunc.ARG_MAX, AggFunc.FIRST, AggFunc.LAST)
LIVING = (*_EXTREMES, *_CHOICES, AggFunc.QUANTILE, AggFunc.STRING_AGG)


@dataclass(frozen=True)
class Living:
    """The live tuples of the groups that a step touches. Tuple i covers the positions begin[i] to stop[i] - 1 of
    `size`."""

    columns: Sequence[pa.Array | None]  # by number; None: not kept
    birth: Ints
    begin: Ints
    stop: Ints
    size: int

    def column(self, number: int) -> pa.Array:
        column = self.columns[number]
        assert column is not None
        return column

    def keep(self, mask: Mask) -> Living:
        if bool(mask.all()):
            return self
        kept = pa.array(mask)
        columns = [None if column is None else column.filter(kept) for column in self.columns]
        return Living(columns, self.birth[mask], self.begin[mask], self.stop[mask], self.size)


def living_result(agg: Agg, living: Living) -> Result:
    """Computes one of these aggregates at every position."""
    assert agg.arg is not None
    if agg.func in _EXTREMES:
        return _extreme(living.column(agg.arg), living, agg.func is AggFunc.MIN)
    if agg.condition is not None:
        chosen = pc.fill_null(living.column(agg.condition), False)
        living = living.keep(np.asarray(chosen.to_numpy(zero_copy_only=False), dtype=np.bool_))
    if agg.func not in (AggFunc.FIRST, AggFunc.LAST):
        living = living.keep(_valid(living.column(agg.arg)))
    if agg.func is AggFunc.QUANTILE:
        return _quantile(living.column(agg.arg), living, float(agg.parameter or 0))
    if agg.func in (AggFunc.ARG_MIN, AggFunc.ARG_MAX):
        living = living.keep(_valid(living.column(agg.order[0].column)))
    ranks = _ranks(living, agg.order)
    if agg.func is AggFunc.STRING_AGG:
        return _joined(living.column(agg.arg), living, ranks, str(agg.parameter))
    return _chosen(living.column(agg.arg), living, ranks, agg.func is not AggFunc.LAST)


def _valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _ranks(living: Living, order: tuple[SortKey, ...]) -> Ints:
    return row_ranks([c if c is not None else pa.nulls(0) for c in living.columns], order, living.birth)


def _extreme(column: pa.Array, living: Living, least: bool) -> Result:
    ranks, values = ranked(column)
    top = len(values) - 1
    if least:
        ranks = np.where(ranks >= 0, top - ranks, -1)
    there = ranks >= 0
    best = greatest(living.begin[there], living.stop[there], ranks[there], living.size)
    null = best < 0
    index = np.where(null, 0, top - best if least else best)
    array = values.take(pa.array(index, mask=null)) if len(values) else pa.nulls(len(best), type=values.type)
    return Result(array, differs(best, null))


def _chosen(column: pa.Array, living: Living, ranks: Ints, least: bool) -> Result:
    """Returns the column of the first (or last) live tuple in the order of the ranks."""
    count = len(ranks)
    row_of = np.empty(count, dtype=np.int64)
    row_of[ranks] = np.arange(count)
    best = greatest(living.begin, living.stop, count - 1 - ranks if least else ranks, living.size)
    none = best < 0
    if not count:
        return Result(pa.nulls(living.size, type=column.type), differs(best, none))
    row = row_of[np.where(none, 0, count - 1 - best if least else best)]
    codes = np.where(none, -1, ranked(column)[0][row])
    return Result(column.take(pa.array(row, mask=none)), differs(codes, codes < 0))


def _quantile(column: pa.Array, living: Living, fraction: float) -> Result:
    """Returns the value at the fraction of the ordered values, between two of them in proportion, as DuckDB does."""
    ranks, values = ranked(column)
    doubles = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    position = np.concatenate([living.begin, living.stop])
    order = np.argsort(position, kind="stable")
    weight = np.where(order < len(ranks), 1, -1)
    after = np.searchsorted(position[order], np.arange(living.size), side="right")
    alive = np.concatenate([[0], np.cumsum(weight)])[after]
    null = alive == 0
    place = np.where(null, 0, alive - 1) * fraction
    low = np.floor(place).astype(np.int64)
    high = np.minimum(np.ceil(place).astype(np.int64), np.maximum(alive - 1, 0))
    found = kth_alive(np.tile(ranks, 2)[order], weight, np.tile(after, 2), np.concatenate([low, high]))
    if not len(doubles):
        return Result(pa.nulls(living.size, type=pa.float64()), differs(alive, null))
    under, over = (doubles[np.maximum(part, 0)] for part in (found[: living.size], found[living.size :]))
    with np.errstate(invalid="ignore"):
        between = np.where(found[: living.size] == found[living.size :], under, under + (over - under) * (place - low))
    return Result(pa.array(between, mask=null), differs(between, null))


def _joined(column: pa.Array, living: Living, ranks: Ints, separator: str) -> Result:
    """Joins the texts of the live tuples of every position, in the order of the ranks."""
    order = np.argsort(ranks, kind="stable")
    begin, lengths = living.begin[order], np.maximum(living.stop[order] - living.begin[order], 0)
    position = expand(begin, lengths)
    by_position = np.argsort(position, kind="stable")
    row = np.repeat(order, lengths)[by_position]
    offsets = np.searchsorted(position[by_position], np.arange(living.size + 1), side="left")
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), column.take(pa.array(row)))
    null = offsets[1:] == offsets[:-1]
    texts = pc.if_else(pa.array(null), pa.scalar(None, pa.string()), pc.binary_join(lists, separator))
    changed = np.ones(living.size, dtype=np.bool_)
    same = pc.fill_null(pc.equal(texts[1:], texts[:-1]), False)
    changed[1:] = ~np.asarray(same.to_numpy(zero_copy_only=False), dtype=np.bool_) & ~(null[1:] & null[:-1])
    return Result(texts, changed)

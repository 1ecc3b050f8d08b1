"""Aggregates that look at the live tuples themselves: MIN, MAX, MEDIAN, quantile_cont, arg_min, arg_max, first, last,
string_agg, list.

Each live tuple of a group that the step touches covers a range of positions. MIN, MAX, arg_min, arg_max, first and last
paint the best rank over these ranges; a quantile asks for the k-th live rank; string_agg and list lay out the tuples
of every position. Tuples that live throughout a step and cannot be chosen are left out
(kigen.lifetimes.sweeps.standing).

Cost: a few passes over the tuples given, and the sorting of those that come or go. If all aggregates choose one tuple
(MIN, MAX, arg_min, arg_max, first, last), the tuples given are those that come or go and the best of the others
(kigen.lifetimes.aggregates.arranged_rows), so the cost does not depend on the window. Else they are all live tuples of
the groups touched: large windows cost more per tuple, and the more the smaller the steps are. The results of string_agg
and list are as long as the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.aggregates.accumulators import Result, differs
from kigen.lifetimes.aggregates.arranged_rows import CHOICES, CHOSEN, EXTREMES
from kigen.lifetimes.aggregates.range_max import greatest
from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.kth_alive import kth_alive
from kigen.lifetimes.sweeps.row_order import coarse_key, ordered_integers, ranked, row_ranks
from kigen.lifetimes.sweeps.standing import MANY, Bands, least_standing
from kigen.plan.logical import BIRTH, Agg, AggFunc, SortKey

LIVING = (*CHOSEN, AggFunc.QUANTILE, AggFunc.STRING_AGG, AggFunc.LIST)


@dataclass(frozen=True)
class Living:
    """The live tuples of the groups that a step touches. Tuple i covers the positions begin[i] to stop[i] - 1 of
    `size`."""

    columns: Sequence[pa.Array | None]  # by number; None: not kept
    birth: Ints
    begin: Ints
    stop: Ints
    size: int
    group: Ints
    stands: Mask  # alive throughout the step
    first: Ints  # first position of each group

    def column(self, number: int) -> pa.Array:
        column = self.columns[number]
        assert column is not None
        return column

    def keep(self, mask: Mask) -> Living:
        if bool(mask.all()):
            return self
        kept = pa.array(mask)
        columns = [None if column is None else column.filter(kept) for column in self.columns]
        birth, begin, stop, group = (part[mask] for part in (self.birth, self.begin, self.stop, self.group))
        return Living(columns, birth, begin, stop, self.size, group, self.stands[mask], self.first)

    def alive(self, chosen: Mask) -> Ints:
        """Returns how many of the chosen tuples live at every position."""
        births, deaths = (np.bincount(part[chosen], minlength=self.size + 1) for part in (self.begin, self.stop))
        return np.cumsum(births - deaths)[: self.size]

    def front(self, key: SortKey, least: bool) -> Living:
        """Leaves out the tuples that are never the first (or last) of their group in the order of the key."""
        if key.column == BIRTH:
            values = ~self.birth if key.descending else self.birth
        elif np.count_nonzero(self.stands) < MANY:
            return self
        else:
            values = coarse_key(self.column(key.column), key)
        return self.keep(least_standing(self.stands, self.group, values if least else ~values))


def living_result(agg: Agg, living: Living) -> Result:
    """Computes one of these aggregates at every position."""
    assert agg.arg is not None
    if agg.func in EXTREMES:
        least = agg.func is AggFunc.MIN
        living = living.keep(_valid(living.column(agg.arg))).front(SortKey(agg.arg), least)
        return _extreme(living.column(agg.arg), living, least)
    if agg.condition is not None:
        chosen = pc.fill_null(living.column(agg.condition), False)
        living = living.keep(np.asarray(chosen.to_numpy(zero_copy_only=False), dtype=np.bool_))
    if agg.func not in (AggFunc.FIRST, AggFunc.LAST, AggFunc.LIST):
        living = living.keep(_valid(living.column(agg.arg)))
    if agg.func is AggFunc.QUANTILE:
        return _quantile(living.column(agg.arg), living, float(agg.parameter or 0))
    if agg.func in (AggFunc.ARG_MIN, AggFunc.ARG_MAX):
        living = living.keep(_valid(living.column(agg.order[0].column)))
    if agg.func in CHOICES and agg.order:
        living = living.front(agg.order[0], agg.func is not AggFunc.LAST)
    ranks = _ranks(living, agg.order)
    if agg.func is AggFunc.STRING_AGG:
        return _joined(living.column(agg.arg), living, ranks, str(agg.parameter))
    if agg.func is AggFunc.LIST:
        return _listed(living.column(agg.arg), living, ranks)
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
    """Returns the value at the fraction of the ordered values, between two of them in proportion, as DuckDB does.
    Values outside the bands of their groups are only counted."""
    alive = living.alive(np.ones(len(living.begin), dtype=np.bool_))
    null = alive == 0
    place = np.where(null, 0, alive - 1) * fraction
    low = np.floor(place).astype(np.int64)
    high = np.minimum(np.ceil(place).astype(np.int64), np.maximum(alive - 1, 0))
    near, less = _around(column, living, low, high, fraction)
    living, column = living.keep(near), column.filter(pa.array(near))
    ranks, values = ranked(column)
    doubles = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if not len(doubles):
        return Result(pa.nulls(living.size, type=pa.float64()), differs(alive, null))
    position = np.concatenate([living.begin, living.stop])
    order = np.argsort(position, kind="stable")
    weight = np.where(order < len(ranks), 1, -1)
    after = np.searchsorted(position[order], np.arange(living.size), side="right")
    wanted = np.concatenate([low - less, high - less])
    found = kth_alive(np.tile(ranks, 2)[order], weight, np.tile(after, 2), wanted)
    under, over = (doubles[np.maximum(part, 0)] for part in (found[: living.size], found[living.size :]))
    share = place - low
    with np.errstate(invalid="ignore"):  # this form, since one infinity beside a number is an infinity
        mixed = under * (1.0 - share) + over * share
    between = np.where(found[: living.size] == found[living.size :], under, mixed)
    return Result(pa.array(between, mask=null), differs(between, null))


def _around(column: pa.Array, living: Living, low: Ints, high: Ints, fraction: float) -> tuple[Mask, Ints]:
    """Returns which tuples may have the places `low` or `high`, and how many live tuples before these were left out, at
    every position."""
    if len(living.begin) < MANY:
        return np.ones(len(living.begin), dtype=np.bool_), np.zeros(living.size, dtype=np.int64)
    values, group = ordered_integers(column), living.group
    moving = np.bincount(group[~living.stands], minlength=len(living.first))
    bands = Bands.likely(group, values, moving, fraction)
    near, less = _within(bands, values, living)
    outside = (low < less) | (high >= np.maximum(less + living.alive(near), 1))  # one place, also where nothing lives
    bad = np.logical_or.reduceat(outside, living.first)
    if bool(bad.any()):
        certain = Bands.certain(living.stands, group, values, moving, fraction)
        bands.low[bad], bands.high[bad] = certain.low[bad], certain.high[bad]
        near, less = _within(bands, values, living)
    return near, less


def _within(bands: Bands, values: Ints, living: Living) -> tuple[Mask, Ints]:
    below = values < bands.low[living.group]
    return ~below & (values <= bands.high[living.group]), living.alive(below)


def _laid_out(living: Living, ranks: Ints) -> tuple[Ints, Ints]:
    """Returns the live tuples of every position, in the order of the ranks, and where each position begins."""
    order = np.argsort(ranks, kind="stable")
    begin, lengths = living.begin[order], np.maximum(living.stop[order] - living.begin[order], 0)
    position = expand(begin, lengths)
    by_position = np.argsort(position, kind="stable")
    offsets = np.searchsorted(position[by_position], np.arange(living.size + 1), side="left")
    return np.repeat(order, lengths)[by_position], offsets


def _joined(column: pa.Array, living: Living, ranks: Ints, separator: str) -> Result:
    """Joins the texts of the live tuples of every position, in the order of the ranks."""
    row, offsets = _laid_out(living, ranks)
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), column.take(pa.array(row)))
    null = offsets[1:] == offsets[:-1]
    texts = pc.if_else(pa.array(null), pa.scalar(None, pa.string()), pc.binary_join(lists, separator))
    changed = np.ones(living.size, dtype=np.bool_)
    same = pc.fill_null(pc.equal(texts[1:], texts[:-1]), False)
    changed[1:] = ~np.asarray(same.to_numpy(zero_copy_only=False), dtype=np.bool_) & ~(null[1:] & null[:-1])
    return Result(texts, changed)


def _listed(column: pa.Array, living: Living, ranks: Ints) -> Result:
    """Lists the values of the live tuples of every position, NULLs too, in the order of the ranks."""
    row, offsets = _laid_out(living, ranks)
    lengths = np.diff(offsets)
    null = pa.array(lengths == 0)
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), column.take(pa.array(row)), mask=null)
    changed = np.ones(living.size, dtype=np.bool_)
    changed[1:] = lengths[1:] != lengths[:-1]
    # Lists of equal length: element by element with the list before, which is as many places earlier as it is long.
    position = np.repeat(np.arange(living.size), lengths)
    here = np.flatnonzero(~changed[position])
    codes = ranked(column)[0][row]
    differ = codes[here] != codes[here - lengths[position[here]]]
    changed[position[here[differ]]] = True
    return Result(lists, changed)

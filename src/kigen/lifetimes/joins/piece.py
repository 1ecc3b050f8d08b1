"""Tuples ordered by key and birth, and which of them a probe meets: those of its key that are alive at the same time.

Among the tuples of one key, those born before the probe ends come first. Those that die after the probe begins come
last if deaths are in the order of births (as above windows and aggregates); otherwise a tree of greatest deaths finds
them. So a probe never meets dead tuples, however many versions of its key there are. A comparison between the sides
(`b.t >= a.t`) may leave fewer candidates; then the tuples are also ordered by key and that column. Cost: a sort when
the piece is made; a probe costs O((met + 1) log size).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import FOREVER, Fills, Ints, Mask
from kigen.lifetimes.chunks import Chunk
from kigen.lifetimes.joins.greatest_tree import GreatestTree
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.sorted_search import consecutive, first_from, overlap, places, strictly_ordered

_FEW = 2  # so many candidates per probe are cheaper to look at than to search
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Bound:
    """A comparison from the probe's point of view: the kept tuple's `column` is at least, more than, at most or less
    than `value`."""

    column: int
    op: str  # ">=", ">", "<=", "<"
    value: Ints  # as `sortable` returns it
    null: Mask | None  # probes without a value, which meet nothing


@dataclass(frozen=True)
class Probes:
    """Probes of a piece, ordered by key: each asks for tuples of `key` born before `until` that die after `since`."""

    key: Ints
    since: Ints
    until: Ints
    bounds: tuple[Bound, ...] = ()

    def __len__(self) -> int:
        return len(self.key)

    def take(self, index: Ints | slice) -> Probes:
        cut = tuple(
            Bound(b.column, b.op, b.value[index], None if b.null is None else b.null[index]) for b in self.bounds
        )
        return Probes(self.key[index], self.since[index], self.until[index], cut)


@dataclass
class Met:
    """The candidates of each probe: a range of positions, or of positions in `order`. At most `total` of them meet
    their probe."""

    probes: Probes
    begin: Ints
    stop: Ints
    order: Ints | None = None
    exact: bool = False  # all candidates are alive at the same time as the probe

    @cached_property
    def counts(self) -> Ints:
        return np.asarray(np.maximum(self.stop - self.begin, 0))

    @cached_property
    def total(self) -> int:
        return int(self.counts.sum())


class Piece:
    """Tuples of a side, ordered by key and birth."""

    def __init__(self, chunk: Chunk, keys: Ints) -> None:
        self.unique = strictly_ordered(keys)  # no key occurs twice
        if not self.unique:
            chunk, keys = _by_key_and_birth(chunk, keys)
            self.unique = strictly_ordered(keys)
        self.chunk = Chunk(chunk.columns, chunk.start, chunk.end.copy(), chunk.holder)
        self.keys = keys
        self._in_order = self.unique or _deaths_in_order(keys, chunk.end)
        self._tree: GreatestTree | None = None
        self._values: dict[int, tuple[Ints, Ints, Ints]] = {}
        # Positions of the tuples that had no known death when the piece was made.
        by_holder = np.flatnonzero(chunk.end == FOREVER)
        holders = chunk.holder[by_holder]
        strict = strictly_ordered(holders)
        if not strict:
            order = np.argsort(holders, kind="stable")  # often a few ordered runs
            by_holder, holders = by_holder[order], holders[order]
            strict = strictly_ordered(holders)
        self._by_holder, self._holders = by_holder, holders
        self._gapless = strict and consecutive(holders)
        self.latest = int(chunk.end.max())  # latest death

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def countable(self) -> bool:
        """Whether all candidates of `meet` do meet their probe, comparisons apart."""
        return self.unique or self._in_order

    # --- deaths ---------------------------------------------------------------------------------------------------

    def fill(self, fills: Fills) -> None:
        """Fills the deaths of tuples. `fills` are ordered by holder."""
        within = overlap(fills.holder, self._holders) if len(self._holders) else slice(0, 0)
        if within.start >= within.stop:
            return
        holder, end = fills.holder[within], fills.end[within]
        begin, counts = places(self._holders, holder, self._gapless)
        if not self._gapless:
            begin, end = expand(begin, counts), np.repeat(end, counts)
        index = self._by_holder[begin]
        ends = self.chunk.end
        ends[index] = np.minimum(ends[index], end)
        if self._tree is not None:
            self._tree.sank(index)
        self._in_order = self._in_order and self._still_in_order(index)
        if len(index) * 4 > len(self._holders):
            still = ends[self._by_holder] == FOREVER
            self._by_holder, self._holders = self._by_holder[still], self._holders[still]
            self._gapless = self._gapless and consecutive(self._holders)
            self.latest = int(ends.max())

    def _still_in_order(self, index: Ints) -> bool:
        if self.unique or not len(index):
            return True
        for lower in (index[index > 0] - 1, index[index < len(self) - 1]):
            same = self.keys[lower] == self.keys[lower + 1]
            if bool((same & (self.chunk.end[lower] > self.chunk.end[lower + 1])).any()):
                return False
        return True

    # --- probes ---------------------------------------------------------------------------------------------------

    def meet(self, probes: Probes) -> Met:
        """Returns the candidates of each probe, as few as searching can find."""
        begin = np.searchsorted(self.keys, probes.key, side="left")
        if self.unique:
            hit = self.keys[np.minimum(begin, len(self) - 1)] == probes.key
            return Met(probes, begin, begin + hit)
        met = Met(probes, begin, np.searchsorted(self.keys, probes.key, side="right"))
        if met.total <= _FEW * len(probes):
            return met
        met = self._by_time(met)
        if met.total > _FEW * len(probes):
            for column in dict.fromkeys(bound.column for bound in probes.bounds):
                other = self._by_value(probes, column)
                met = other if other.total < met.total else met
        return met

    def _by_time(self, met: Met) -> Met:
        probes = met.probes
        stop = self._first(self.chunk.start, met.begin, met.stop, probes.until)
        if not self._in_order:
            return Met(probes, met.begin, stop)
        return Met(probes, self._first(self.chunk.end, met.begin, stop, probes.since + 1), stop, exact=True)

    def _by_value(self, probes: Probes, column: int) -> Met:
        """Narrows the candidates by the values of a column; they are positions in an order of that column."""
        order, keys, values = self._ordered(column)
        begin = np.searchsorted(keys, probes.key, side="left")
        stop = np.searchsorted(keys, probes.key, side="right")
        for bound in probes.bounds:
            if bound.column != column:
                continue
            beyond = bound.op in (">", "<=")  # search for the position after equal values
            value = np.where(bound.value == _LARGEST, _LARGEST, bound.value + 1) if beyond else bound.value
            at = self._first(values, begin, stop, value)
            if beyond and bool((bound.value == _LARGEST).any()):
                at = np.where(bound.value == _LARGEST, stop, at)
            begin, stop = (at, stop) if bound.op in (">", ">=") else (begin, at)
            if bound.null is not None:
                stop = np.where(bound.null, begin, stop)
        return Met(probes, begin, stop, order)

    def _first(self, values: Ints, begin: Ints, stop: Ints, bound: Ints) -> Ints:
        if self.keys[0] == self.keys[-1]:  # one key, so one run
            return np.clip(np.searchsorted(values, bound), begin, np.maximum(begin, stop))
        return first_from(values, begin, stop, bound)

    def _ordered(self, column: int) -> tuple[Ints, Ints, Ints]:
        if column not in self._values:
            values, null = sortable(self.chunk.columns.column(column))
            there = np.arange(len(self)) if null is None else np.flatnonzero(~null)
            order = there[np.lexsort((values[there], self.keys[there]))]
            self._values[column] = order, self.keys[order], values[order]
        return self._values[column]

    def pairs(self, met: Met, begin: int, stop: int) -> tuple[Ints, Ints, int]:
        """Returns the pairs (probe, position in the piece) that do meet, for the probes begin to stop, and how many
        pairs were looked at."""
        part = slice(begin, stop)
        first, last, since = met.begin[part], met.stop[part], met.probes.since[part]
        if met.order is None and not self._in_order and met.total > _FEW * len(met.probes):
            if self._tree is None:
                self._tree = GreatestTree(self.chunk.end)
            mine, found = self._tree.above(first, last, since)
            return mine + begin, found, len(mine)
        counts = met.counts[part]
        if self.unique:
            mine = np.flatnonzero(counts)
            found = first[mine]
        else:
            mine, found = np.repeat(np.arange(stop - begin), counts), expand(first, counts)
        found, formed = found if met.order is None else met.order[found], len(mine)
        if not met.exact and formed:
            meets = (self.chunk.start[found] < met.probes.until[part][mine]) & (self.chunk.end[found] > since[mine])
            if not bool(meets.all()):
                mine, found = mine[meets], found[meets]
        return mine + begin, found, formed


def _deaths_in_order(keys: Ints, end: Ints) -> bool:
    """Whether the tuples of each key die in the order in which they are stored."""
    return not bool(((keys[1:] == keys[:-1]) & (end[1:] < end[:-1])).any())


def _by_key_and_birth(chunk: Chunk, keys: Ints) -> tuple[Chunk, Ints]:
    if not bool(np.all(keys[1:] >= keys[:-1])):
        order = np.argsort(keys, kind="stable")
        chunk, keys = chunk.take(order), keys[order]
    start = chunk.start
    if bool(((keys[1:] == keys[:-1]) & (start[1:] < start[:-1])).any()):
        order = np.lexsort((start, keys))
        chunk, keys = chunk.take(order), keys[order]
    return chunk, keys


def sortable(column: pa.Array) -> tuple[Ints, Mask | None]:
    """Converts numbers and times to integers in DuckDB's order (-0.0 is 0.0, NaN is the greatest). Also returns where
    the value is NULL."""
    null = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_) if column.null_count else None
    filled = (
        pc.fill_null(column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column, 0)
        if column.null_count
        else column
    )
    if pa.types.is_timestamp(filled.type):
        filled = filled.cast(pa.int64())
    values = np.asarray(filled.to_numpy(zero_copy_only=False))
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False), null
    values = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    return np.where(np.isnan(values), _LARGEST, np.where(bits < 0, bits ^ _LARGEST, bits)), null

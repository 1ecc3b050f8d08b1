"""The join that several queries share: matches and keeps tuples once, for the widest windows, and lays the matches out by slices.

A pair's lag on a side is how old its tuple was when the pair was born: microseconds (RANGE) or later rows of its stream (ROWS). Windows
hold the pair if both lags are less than their sizes; the first that do so is its slice. Pairs are given in the order of their slices, so
that what windows hold is the beginning of the batch, and a share of it costs no copy. Cost: that of one join, and a sort of small numbers
a pair; shares (kigen.lifetimes.join_shares) only work out the deaths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.alive import Chunk, State
from kigen.lifetimes.blocks import FOREVER, Block, Ints, StreamBlock, concat_columns, empty_columns, filter_columns, no_ints, take_columns
from kigen.lifetimes.join import JoinBase
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.select import FilterOperator, ProjectOperator
from kigen.lifetimes.sides import Matches
from kigen.lifetimes.windows import make_window
from kigen.plan.nodes import Filter, Node, Project, WindowKind
from kigen.plan.shared_join import SharedJoin, window_below


@dataclass(frozen=True)
class Arrivals:
    """The tuples of a stream that came in this step: those numbered `first` and up, and when."""

    first: int
    at: Ints

    def time_of(self, number: Ints) -> Ints:
        """When the tuples of these numbers came; FOREVER for those that have not. None came before this step."""
        place = number - self.first
        if not len(self.at):
            return np.full(len(place), FOREVER)
        return np.where(place < len(self.at), self.at[np.minimum(place, len(self.at) - 1)], FOREVER)

    def until(self, time: Ints) -> Ints:
        """How many tuples of the stream had come by these times, all of this step."""
        return self.first + np.searchsorted(self.at, time, side="right")


@dataclass(frozen=True)
class Pairs:
    """Matches of a step. A mark is the birth of a tuple (RANGE) or its number in its stream (ROWS)."""

    columns: pa.RecordBatch
    start: Ints
    marks: tuple[Ints, Ints]
    arrivals: tuple[Arrivals, Arrivals]
    lags: tuple[Ints, Ints] | None = None  # of pairs that lie in no order
    upto: Ints | None = None  # of pairs in the order of their slices: how many each of the windows holds

    def __len__(self) -> int:
        return len(self.start)

    def held_by(self, place: int, sizes: tuple[int, int]) -> Pairs:
        """Those in the windows `sizes`, which are at `place` among the windows of the join."""
        if self.upto is not None:
            stop = int(self.upto[place])
            return Pairs(self.columns.slice(0, stop), self.start[:stop], _cut(self.marks, slice(0, stop)), self.arrivals)
        assert self.lags is not None
        inside = (self.lags[0] < sizes[0]) & (self.lags[1] < sizes[1])
        return Pairs(filter_columns(self.columns, inside), self.start[inside], _cut(self.marks, inside), self.arrivals)


def _cut(both: tuple[Ints, Ints], part: slice | np.ndarray[tuple[int], np.dtype[np.generic]]) -> tuple[Ints, Ints]:
    return both[0][part], both[1][part]


class SharedJoinOperator(JoinBase):
    def __init__(self, node: SharedJoin, number: int) -> None:
        super().__init__(node.join, number)
        self.shared = node
        self._chain = node.is_chain
        self._inputs = (_Input(node.join.left), _Input(node.join.right))
        self._by_time = window_below(node.join.left).kind is WindowKind.RANGE
        self._sizes = tuple(np.array([sizes[side] for sizes in node.windows]) for side in (0, 1))

    def step(self, inputs: list[Message], now: int) -> Message:
        arrivals = self._inputs[0].arrivals(inputs[0]), self._inputs[1].arrivals(inputs[1])
        left, right = (mine.step(stream, now) for mine, stream in zip(self._inputs, inputs, strict=True))
        parts = [self._pairs(matches, arrivals) for matches in self._born(left, right)]
        for side in self._sides:
            side.expire(now)
        return self._laid_out([p for p in parts if len(p)], arrivals)

    def _pairs(self, matches: Matches, arrivals: tuple[Arrivals, Arrivals]) -> Pairs:
        left, right = matches.left, matches.right
        columns = self._columns(left.columns, right.columns)
        keep = matches.overlap()
        passes = self._passes(columns, len(keep))
        if passes is not None:
            keep &= passes
        start = np.maximum(left.start, right.start)
        marks = self._mark(left), self._mark(right)
        if not bool(keep.all()):
            columns, start, marks = filter_columns(columns, keep), start[keep], _cut(marks, keep)
        return Pairs(columns, start, marks, arrivals)

    def _mark(self, chunk: Chunk) -> Ints:
        return chunk.start if self._by_time else chunk.holder

    def _laid_out(self, parts: list[Pairs], arrivals: tuple[Arrivals, Arrivals]) -> Pairs:
        """All pairs, in the order of their slices."""
        pairs = _together(parts) if parts else Pairs(empty_columns(self.node.schema), no_ints(), (no_ints(), no_ints()), arrivals)
        ages = (pairs.start, pairs.start) if self._by_time else (arrivals[0].until(pairs.start) - 1, arrivals[1].until(pairs.start) - 1)
        lags = ages[0] - pairs.marks[0], ages[1] - pairs.marks[1]
        if not self._chain:
            return Pairs(pairs.columns, pairs.start, pairs.marks, arrivals, lags=lags)
        slices = self._slices(lags)
        upto = np.cumsum(np.bincount(slices, minlength=len(self.shared.windows)))
        if bool(np.all(slices[1:] >= slices[:-1])):
            return Pairs(pairs.columns, pairs.start, pairs.marks, arrivals, upto=upto)
        order = np.argsort(slices, kind="stable")  # small numbers: a radix sort
        return Pairs(take_columns(pairs.columns, order), pairs.start[order], _cut(pairs.marks, order), arrivals, upto=upto)

    def _slices(self, lags: tuple[Ints, Ints]) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        """The first windows that hold each pair, and with them all after."""
        found = [np.searchsorted(sizes, lag, side="right") for sizes, lag in zip(self._sizes, lags, strict=True)]
        return np.maximum(*found).astype(np.uint16)

    def state(self) -> State:
        return {**super().state(), "arrived": [mine.arrived for mine in self._inputs]}

    def load(self, state: State) -> None:
        super().load(state)
        for mine, arrived in zip(self._inputs, state["arrived"], strict=True):
            mine.arrived = arrived


class _Input:
    """A stream on its way into the join: its widest window, and the filters and projections on it. A holder is the tuple's number."""

    def __init__(self, side: Node) -> None:
        self._steps: list[Operator] = []
        while isinstance(side, (Filter, Project)):
            self._steps.insert(0, FilterOperator(side) if isinstance(side, Filter) else ProjectOperator(side))
            side = side.child
        self._window = make_window(window_below(side), 0)
        self.arrived = 0

    def arrivals(self, stream: StreamBlock) -> Arrivals:
        return Arrivals(self.arrived, stream.at)

    def step(self, stream: StreamBlock, now: int) -> Block:
        self.arrived += len(stream)
        block = self._window.step(stream, now)
        for step in self._steps:
            block = step.step([block], now)
        return block


def _together(parts: list[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    marks = np.concatenate([p.marks[0] for p in parts]), np.concatenate([p.marks[1] for p in parts])
    return Pairs(concat_columns([p.columns for p in parts]), np.concatenate([p.start for p in parts]), marks, parts[0].arrivals)

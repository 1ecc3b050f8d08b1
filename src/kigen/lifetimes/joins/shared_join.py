"""The join that several queries share: it matches and keeps tuples once, for the widest windows, and orders the matches
by slices.

The lag of a pair on a side is the age of its tuple when the pair was born: microseconds (RANGE) or later rows of its
stream (ROWS). Windows hold the pair if both lags are less than their sizes; the first windows that do so are its slice.
Pairs are given in the order of their slices, so what certain windows hold is the beginning of the batch, and a share of
it needs no copy. Cost: that of one join, and a sort of small numbers per pair. Shares (kigen.lifetimes.joins.shares)
only compute the deaths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import (
    HOLDER_BITS,
    Block,
    Ints,
    Mask,
    StreamBlock,
    concat_columns,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.lifetimes.chunks import Chunk, State
from kigen.lifetimes.joins.join import JoinBase
from kigen.lifetimes.joins.join_side import Matches
from kigen.lifetimes.joins.open_pairs import OpenPairs, Pushed, Sides, StepArrivals, numbered
from kigen.lifetimes.joins.pairing import JoinScope
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.select import FilterOperator, ProjectOperator
from kigen.lifetimes.windows.kinds import make_window
from kigen.plan.logical import Filter, PlanNode, Project, WindowKind
from kigen.plan.shared_joins.share_nodes import SharedJoin, window_below

_NUMBERS = 1 << HOLDER_BITS


@dataclass(frozen=True)
class Pairs:
    """Matches of a step. The anchor of a tuple is its birth (RANGE) or its offset in its stream (ROWS). `number` is the
    pair's own number."""

    columns: pa.RecordBatch
    start: Ints
    anchors: Sides
    number: Ints
    pushed: Pushed  # deaths of earlier pairs (ROWS)
    lags: Sides | None = None  # set if the pairs are not ordered by slices
    upto: Ints | None = None  # set if the pairs are ordered by slices: how many each of the windows holds

    def __len__(self) -> int:
        return len(self.start)

    def held_by(self, place: int, sizes: tuple[int, int]) -> Pairs:
        """Returns the pairs in the windows `sizes`, which are at `place` among the windows of the join."""
        if self.upto is not None:
            part = slice(0, int(self.upto[place]))
            return Pairs(
                self.columns.slice(0, part.stop),
                self.start[part],
                _cut(self.anchors, part),
                self.number[part],
                self.pushed,
            )
        assert self.lags is not None
        inside = (self.lags[0] < sizes[0]) & (self.lags[1] < sizes[1])
        columns = filter_columns(self.columns, inside)
        return Pairs(columns, self.start[inside], _cut(self.anchors, inside), self.number[inside], self.pushed)

    def only(self, mask: Mask) -> Pairs:
        """Returns the pairs of the mask. The pairs must be ordered by slices."""
        if bool(mask.all()):
            return self
        assert self.upto is not None
        upto = np.concatenate(([0], np.cumsum(mask)))[self.upto]
        columns, number = filter_columns(self.columns, mask), self.number[mask]
        return Pairs(columns, self.start[mask], _cut(self.anchors, mask), number, self.pushed, upto=upto)


@dataclass(frozen=True)
class _NewPairs:
    """Pairs as they are found."""

    columns: pa.RecordBatch
    start: Ints
    anchors: Sides


def _cut(both: Sides, part: slice | np.ndarray[tuple[int], np.dtype[np.generic]]) -> Sides:
    return both[0][part], both[1][part]


class SharedJoinOperator(JoinBase):
    """Matches the tuples of two streams for all windows at once."""

    def __init__(self, node: SharedJoin, number: int, scope: JoinScope | None = None) -> None:
        super().__init__(node.join, number, scope)
        self.shared = node
        self._chain = node.is_chain
        self._inputs = (JoinInput(node.join.left), JoinInput(node.join.right))
        self._by_time = window_below(node.join.left).kind is WindowKind.RANGE
        self._sizes = np.array([left for left, _ in node.windows]), np.array([right for _, right in node.windows])
        self._open = OpenPairs(self._sizes)
        self._next = 0  # number of the next pair
        self._nothing = _NewPairs(empty_columns(node.schema), no_ints(), (no_ints(), no_ints()))

    def pieces(self, inputs: list[Message], now: int) -> Iterator[tuple[int, Message]]:
        arrivals = self._inputs[0].arrivals(inputs[0]), self._inputs[1].arrivals(inputs[1])
        left, right = (mine.step(stream, now) for mine, stream in zip(self._inputs, inputs, strict=True))
        for until, matches in self._stretches(left, right, now):
            found = [self._found(m) for m in matches]
            self._expire(until)
            parts = arrivals[0].before(until), arrivals[1].before(until)
            arrivals = arrivals[0].since(until), arrivals[1].since(until)
            yield until, self._laid_out(_together(found) if found else self._nothing, parts)

    def _found(self, matches: Matches) -> _NewPairs:
        left, right = matches.left, matches.right
        start = np.maximum(left.start, right.start)
        columns = self._columns(left.columns, right.columns, len(start))
        anchors = self._anchor(left), self._anchor(right)
        keep = self._passes(columns, len(start))
        if keep is None or bool(keep.all()):
            return _NewPairs(columns, start, anchors)
        return _NewPairs(filter_columns(columns, keep), start[keep], _cut(anchors, keep))

    def _anchor(self, chunk: Chunk) -> Ints:
        return chunk.start if self._by_time else chunk.holder

    def _laid_out(self, found: _NewPairs, arrivals: tuple[StepArrivals, StepArrivals]) -> Pairs:
        """Returns all pairs, ordered by slices if the windows form a chain."""
        columns, start, anchors, upto = found.columns, found.start, found.anchors, None
        ages = (start, start) if self._by_time else (arrivals[0].until(start) - 1, arrivals[1].until(start) - 1)
        lags = ages[0] - anchors[0], ages[1] - anchors[1]
        if self._chain:
            slices = first_windows(self._sizes, lags)
            upto = np.cumsum(np.bincount(slices, minlength=len(self.shared.windows)))
            if not bool(np.all(slices[1:] >= slices[:-1])):
                order = np.argsort(slices, kind="stable")  # numpy sorts small integers with a radix sort
                columns, start, anchors, lags = (
                    take_columns(columns, order),
                    start[order],
                    _cut(anchors, order),
                    _cut(lags, order),
                )
        number = numbered(self._next, len(start), _NUMBERS)
        self._next = (self._next + len(start)) % _NUMBERS
        pushed = Pushed(arrivals)
        if not self._by_time:
            pushed = self._open.pushed_out(arrivals)
            self._open.add(number, anchors, lags, arrivals)
        return Pairs(columns, start, anchors, number, pushed, None if self._chain else lags, upto)

    @property
    def held(self) -> int:
        return super().held + len(self._open)

    def state(self) -> State:
        arrived = [mine.arrived for mine in self._inputs]
        return {**super().state(), "arrived": arrived, "next": self._next, "open": self._open.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self._next = state["next"]
        self._open.load(state["open"])
        for mine, arrived in zip(self._inputs, state["arrived"], strict=True):
            mine.arrived = arrived


class JoinInput:
    """An input of the join: a stream with its widest window, and the filters and projections above the window. A holder
    is the tuple's offset."""

    def __init__(self, side: PlanNode) -> None:
        self._steps: list[Operator] = []
        while isinstance(side, (Filter, Project)):
            self._steps.insert(0, FilterOperator(side) if isinstance(side, Filter) else ProjectOperator(side))
            side = side.child
        self._window = make_window(window_below(side), 0)
        self.arrived = 0

    def arrivals(self, stream: StreamBlock) -> StepArrivals:
        return StepArrivals(self.arrived, stream.at)

    def step(self, stream: StreamBlock, now: int) -> Block:
        self.arrived += len(stream)
        block: Block = self._window.step([stream], now)
        for step in self._steps:
            block = step.step([block], now)
        return block


def first_windows(sizes: Sides, lags: Sides) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """Returns the first windows of a chain that hold each pair; all later windows hold it as well."""
    found = [np.searchsorted(mine, lag, side="right") for mine, lag in zip(sizes, lags, strict=True)]
    return np.maximum(*found).astype(np.uint16)


def _together(parts: list[_NewPairs]) -> _NewPairs:
    if len(parts) == 1:
        return parts[0]
    anchors = np.concatenate([p.anchors[0] for p in parts]), np.concatenate([p.anchors[1] for p in parts])
    return _NewPairs(concat_columns([p.columns for p in parts]), np.concatenate([p.start for p in parts]), anchors)


def _build(node: SharedJoin, task: OperatorContext) -> SharedJoinOperator:
    return SharedJoinOperator(node, task.number, JoinScope(task.needed, task.secret))


SHARED_JOIN = OperatorSpec(SharedJoin, _build)

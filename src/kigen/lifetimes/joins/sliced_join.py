"""A shared join that runs slice by slice: each slice reaches a tuple at its own time and finds the partners of its span
of ages.

The younger tuple of a pair finds the older one (of equal births the left finds the right), in the pass of the slice to
which the pair belongs; so a pair is found once. The pairs of a pass are kept until the last slice has passed their
births, because the queries of wider windows take them then. Slices that cover the same stretch together make one pass.
Only RANGE windows that form a chain are supported; a slice has the ages between one reach and the next. Invariant: no
slice is ahead of the one before it. Cost: a pass is one search per probe and piece of its ages; a pair is copied once
for each pass that takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    HOLDER_BITS,
    Ints,
    StreamBlock,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.lifetimes.chunks import State
from kigen.lifetimes.joins.open_pairs import Pushed, Sides, StepArrivals, numbered
from kigen.lifetimes.joins.pairing import JoinScope, Pairing
from kigen.lifetimes.joins.shared_join import JoinInput, Pairs, first_windows
from kigen.lifetimes.joins.timed_side import TimedSide, TimedTuples
from kigen.lifetimes.keys.row_keys import row_keys
from kigen.plan.shared_joins.share_nodes import SharedJoin, reach

_NUMBERS = 1 << HOLDER_BITS
_NOTHING_PUSHED = Pushed((StepArrivals(0, no_ints()), StepArrivals(0, no_ints())))


@dataclass(frozen=True)
class Spans:
    """Tuples of a stream that a slice skipped. By birth, in order, both ends included."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    def holds(self, birth: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if not self.first:
            return np.zeros(len(birth), dtype=np.bool_)
        place = np.searchsorted(np.array(self.first), birth, side="right") - 1
        return (place >= 0) & (birth <= np.array(self.last)[place])

    def added(self, bounds: tuple[int, ...]) -> Spans:
        """Adds later spans: the first and last birth of each in turn."""
        return Spans(self.first + bounds[::2], self.last + bounds[1::2])

    def since(self, birth: int) -> Spans:
        gone = int(np.searchsorted(self.last, birth)) if self.last else 0
        return Spans(self.first[gone:], self.last[gone:]) if gone else self


@dataclass(frozen=True)
class _FoundPairs:
    """Pairs, with the births of their tuples and their own numbers."""

    columns: pa.RecordBatch
    start: Ints
    anchors: Sides
    number: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, order: Ints) -> _FoundPairs:
        anchors = self.anchors[0][order], self.anchors[1][order]
        return _FoundPairs(take_columns(self.columns, order), self.start[order], anchors, self.number[order])

    def between(self, since: int, until: int) -> _FoundPairs:
        """Returns the pairs born in [since, until). The pairs must be ordered by birth."""
        begin, stop = np.searchsorted(self.start, (since, until)).tolist()
        part = slice(begin, stop)
        anchors = self.anchors[0][part], self.anchors[1][part]
        return _FoundPairs(self.columns.slice(begin, stop - begin), self.start[part], anchors, self.number[part])


class SlicedJoin(Pairing):
    """Keeps both sides and runs ranges of slices over them."""

    def __init__(self, node: SharedJoin, scope: JoinScope | None = None) -> None:
        super().__init__(node.join, scope)
        self._inputs = (JoinInput(node.join.left), JoinInput(node.join.right))
        self._sides = (TimedSide(node.join.left.schema), TimedSide(node.join.right.schema))
        self._sizes = np.array([left for left, _ in node.windows]), np.array([right for _, right in node.windows])
        ends = [max(w for w in node.windows if reach(w) == r) for r in node.reaches]
        self._ends = ((0, 0), *ends)  # slice i has the ages from ends[i] up to ends[i + 1], per side
        self._waiting: list[_FoundPairs] = []  # pairs that some slice has not reached; each part in the order of births
        self._next = 0  # number of the next pair
        self._passed = BEFORE_TIME  # the last slice has passed all earlier births
        self._none = _FoundPairs(empty_columns(node.schema), no_ints(), (no_ints(), no_ints()), no_ints())

    def take_in(self, left: StreamBlock, right: StreamBlock, now: int) -> None:
        """Adds the tuples of both streams up to `now`."""
        for number, stream in enumerate((left, right)):
            new = self._keyed(self._inputs[number].step(stream, now), number)
            self._sides[number].add(TimedTuples(new.chunk.columns, new.chunk.start, new.keys))

    def milestones(self, since: int, until: int, size: int) -> list[int]:
        return sorted({at for side in self._sides for at in side.milestones(since, until, size)})

    def run(self, first: int, last: int, since: int, until: int, absent: tuple[Spans, Spans]) -> Pairs:
        """Runs the slices from `first` to `last` over the tuples born in [since, until), except those that are absent.
        Returns all pairs born then that the windows up to the last of these slices hold, in the order of slices."""
        parts = []
        for mine, other in ((0, 1), (1, 0)):
            low, high = self._ends[first][other], self._ends[last + 1][other]
            probes = self._sides[mine].born(since, until)
            if absent[mine].first:
                probes = probes.filter(~absent[mine].holds(probes.birth))
            for place, partners in self._sides[other].older(
                probes, max(low, mine), high
            ):  # of equal births the left finds the right
                both = (probes.take(place), partners)
                parts.append((both[mine], both[other]))
        found = self._found(parts)
        before = self._before(since, until)
        slices = first_windows(self._sizes, (found.start - found.anchors[0], found.start - found.anchors[1]))
        upto = len(before) + np.cumsum(np.bincount(slices, minlength=len(self._sizes[0])))
        if not bool(np.all(slices[1:] >= slices[:-1])):
            found = found.take(np.argsort(slices, kind="stable"))
        if last + 2 < len(self._ends):
            self._wait(found)
        whole = _together([before, found]) if len(before) and len(found) else found if len(found) else before
        return Pairs(whole.columns, whole.start, whole.anchors, whole.number, _NOTHING_PUSHED, upto=upto)

    def _found(self, parts: list[tuple[TimedTuples, TimedTuples]]) -> _FoundPairs:
        found = []
        for left, right in parts:
            columns = self._columns(left.columns, right.columns, len(left))
            start, anchors = np.maximum(left.birth, right.birth), (left.birth, right.birth)
            passes = self._passes(columns, len(start))
            if passes is not None and not bool(passes.all()):
                columns, start, anchors = (
                    filter_columns(columns, passes),
                    start[passes],
                    (anchors[0][passes], anchors[1][passes]),
                )
            number = numbered(self._next, len(start), _NUMBERS)
            self._next = (self._next + len(start)) % _NUMBERS
            found.append(_FoundPairs(columns, start, anchors, number))
        return _together(found) if found else self._none

    def _before(self, since: int, until: int) -> _FoundPairs:
        """Returns the pairs born in [since, until) that earlier slices have found."""
        parts = [
            part.between(since, until) for part in self._waiting if part.start[-1] >= since and part.start[0] < until
        ]
        parts = [part for part in parts if len(part)]
        return _together(parts) if parts else self._none

    def _wait(self, found: _FoundPairs) -> None:
        """Keeps pairs for later slices. Parts of about equal size are merged, so that there are few."""
        if not len(found):
            return
        parts, size = [found], len(found)
        while self._waiting and len(self._waiting[-1]) <= size * 2:
            parts.insert(0, self._waiting.pop().between(self._passed, 2**62))
            size += len(parts[0])
        whole = _together(parts)
        self._waiting.append(whole.take(np.argsort(whole.start, kind="stable")))

    def forget(self, passed: int) -> None:
        """Forgets what no slice needs: the last slice has passed all births before `passed`."""
        self._passed = passed
        widest = self._ends[-1]
        for side, size in zip(self._sides, widest, strict=True):
            side.forget(passed - size + 1, passed)
        self._waiting = [part for part in self._waiting if part.start[-1] >= passed]

    def oldest(self, passed: int) -> int:
        """Returns the birth of the oldest tuple that may still be in a pair."""
        return passed - max(self._ends[-1]) + 1

    @property
    def held(self) -> int:
        return sum(map(len, self._sides)) + sum(map(len, self._waiting))

    @property
    def kept_of_inputs(self) -> tuple[TimedSide, ...]:
        return self._sides

    def state(self) -> State:
        waiting = _together([self._none, *(part.between(self._passed, 2**62) for part in self._waiting)])
        pairs = {
            "columns": waiting.columns,
            "start": waiting.start,
            "marks": list(waiting.anchors),
            "number": waiting.number,
        }
        sides = [side.state() for side in self._sides]
        return {"sides": sides, "waiting": pairs, "next": self._next, "passed": self._passed}

    def load(self, state: State) -> None:
        self._next, self._passed, pairs = state["next"], state["passed"], state["waiting"]
        for keys, side, saved in zip(self._keys, self._sides, state["sides"], strict=True):
            if self._confirmed:  # the keys may have been made with another secret
                saved["key"] = row_keys(saved["columns"], len(saved["birth"]), keys, self._secret)
            side.load(saved, self._passed)
        self._waiting = []
        left, right = pairs["marks"]
        self._wait(_FoundPairs(pairs["columns"], pairs["start"], (left, right), pairs["number"]))


def _together(parts: list[_FoundPairs]) -> _FoundPairs:
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    anchors = concat_ints([p.anchors[0] for p in parts]), concat_ints([p.anchors[1] for p in parts])
    number = concat_ints([p.number for p in parts])
    return _FoundPairs(
        concat_columns([p.columns for p in parts]), concat_ints([p.start for p in parts]), anchors, number
    )

"""A shared join that runs slice by slice: each slice comes to a tuple in its own time, and finds the partners of its
span of ages.

The younger tuple of a pair finds the older one (of equal births the left finds the right), in the pass of the slice
that the pair is in: so a pair is found once. What a pass has found is kept until the last slice has passed its birth,
for the queries of wider windows, which take it then. Slices that go together over the same stretch are one pass. RANGE
windows that form a chain only; a slice holds what lies between one reach and the next. Invariant: no slice is ahead of
one before it. Cost: a pass is a search a probe and piece of its ages; a pair is copied once for each pass that takes it
up.
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
from kigen.lifetimes.joins.open_pairs import Pushed, Sides, StepArrivals, numbered
from kigen.lifetimes.joins.pairing import JoinScope, Pairing
from kigen.lifetimes.joins.shared_join import JoinInput, Pairs, first_windows
from kigen.lifetimes.joins.timed_side import TimedSide, TimedTuples
from kigen.lifetimes.keys.row_keys import row_keys
from kigen.lifetimes.live_tuples import State
from kigen.plan.shared_joins.share_nodes import SharedJoin, reach

_NUMBERS = 1 << HOLDER_BITS
_NOTHING_PUSHED = Pushed((StepArrivals(0, no_ints()), StepArrivals(0, no_ints())))


@dataclass(frozen=True)
class Spans:
    """Tuples of a stream that a slice passed over: no room in the stream's buffer. By birth, in order, both ends
    included."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    def holds(self, birth: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if not self.first:
            return np.zeros(len(birth), dtype=np.bool_)
        place = np.searchsorted(np.array(self.first), birth, side="right") - 1
        return (place >= 0) & (birth <= np.array(self.last)[place])

    def added(self, first: int, last: int) -> Spans:
        return Spans((*self.first, first), (*self.last, last))

    def since(self, birth: int) -> Spans:
        gone = int(np.searchsorted(self.last, birth)) if self.last else 0
        return Spans(self.first[gone:], self.last[gone:]) if gone else self


@dataclass(frozen=True)
class _Found:
    """Pairs, with the births of their tuples and their own numbers."""

    columns: pa.RecordBatch
    start: Ints
    marks: Sides
    number: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, order: Ints) -> _Found:
        marks = self.marks[0][order], self.marks[1][order]
        return _Found(take_columns(self.columns, order), self.start[order], marks, self.number[order])

    def between(self, since: int, until: int) -> _Found:
        """Those born in [since, until), of pairs in the order of births."""
        begin, stop = np.searchsorted(self.start, (since, until)).tolist()
        part = slice(begin, stop)
        marks = self.marks[0][part], self.marks[1][part]
        return _Found(self.columns.slice(begin, stop - begin), self.start[part], marks, self.number[part])


class SlicedJoin(Pairing):
    def __init__(self, node: SharedJoin, scope: JoinScope | None = None) -> None:
        super().__init__(node.join, scope)
        self._inputs = (JoinInput(node.join.left), JoinInput(node.join.right))
        self._sides = (TimedSide(node.join.left.schema), TimedSide(node.join.right.schema))
        self._sizes = np.array([left for left, _ in node.windows]), np.array([right for _, right in node.windows])
        ends = [max(w for w in node.windows if reach(w) == r) for r in node.reaches]
        self._ends = ((0, 0), *ends)  # of slice i: from ends[i] up to ends[i + 1], of either side
        self._waiting: list[_Found] = []  # pairs that not all slices have come to; each part in the order of births
        self._next = 0  # number of a pair
        self._passed = BEFORE_TIME  # by the last slice
        self._none = _Found(empty_columns(node.schema), no_ints(), (no_ints(), no_ints()), no_ints())

    def take_in(self, left: StreamBlock, right: StreamBlock, now: int) -> None:
        """What came of both streams up to `now`."""
        for number, stream in enumerate((left, right)):
            new = self._keyed(self._inputs[number].step(stream, now), number)
            self._sides[number].add(TimedTuples(new.chunk.columns, new.chunk.start, new.keys))

    def milestones(self, since: int, until: int, size: int) -> list[int]:
        return sorted({at for side in self._sides for at in side.milestones(since, until, size)})

    def run(self, first: int, last: int, since: int, until: int, absent: tuple[Spans, Spans]) -> Pairs:
        """The slices from `first` to `last` pass over what was born in [since, until), but for what is absent. All
        pairs born then that the windows up to the last of these slices hold, in the order of slices."""
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
        slices = first_windows(self._sizes, (found.start - found.marks[0], found.start - found.marks[1]))
        upto = len(before) + np.cumsum(np.bincount(slices, minlength=len(self._sizes[0])))
        if not bool(np.all(slices[1:] >= slices[:-1])):
            found = found.take(np.argsort(slices, kind="stable"))
        if last + 2 < len(self._ends):
            self._wait(found)
        whole = _together([before, found]) if len(before) and len(found) else found if len(found) else before
        return Pairs(whole.columns, whole.start, whole.marks, whole.number, _NOTHING_PUSHED, upto=upto)

    def _found(self, parts: list[tuple[TimedTuples, TimedTuples]]) -> _Found:
        found = []
        for left, right in parts:
            columns = self._columns(left.columns, right.columns, len(left))
            start, marks = np.maximum(left.birth, right.birth), (left.birth, right.birth)
            passes = self._passes(columns, len(start))
            if passes is not None and not bool(passes.all()):
                columns, start, marks = (
                    filter_columns(columns, passes),
                    start[passes],
                    (marks[0][passes], marks[1][passes]),
                )
            number = numbered(self._next, len(start), _NUMBERS)
            self._next = (self._next + len(start)) % _NUMBERS
            found.append(_Found(columns, start, marks, number))
        return _together(found) if found else self._none

    def _before(self, since: int, until: int) -> _Found:
        """What slices before have found among those born in [since, until)."""
        parts = [
            part.between(since, until) for part in self._waiting if part.start[-1] >= since and part.start[0] < until
        ]
        parts = [part for part in parts if len(part)]
        return _together(parts) if parts else self._none

    def _wait(self, found: _Found) -> None:
        """Parts of about equal size are merged, so that there are few."""
        if not len(found):
            return
        parts, size = [found], len(found)
        while self._waiting and len(self._waiting[-1]) <= size * 2:
            parts.insert(0, self._waiting.pop().between(self._passed, 2**62))
            size += len(parts[0])
        whole = _together(parts)
        self._waiting.append(whole.take(np.argsort(whole.start, kind="stable")))

    def forget(self, passed: int) -> None:
        """The last slice has passed all births before `passed`."""
        self._passed = passed
        widest = self._ends[-1]
        for side, size in zip(self._sides, widest, strict=True):
            side.forget(passed - size + 1, passed)
        self._waiting = [part for part in self._waiting if part.start[-1] >= passed]

    def oldest(self, passed: int) -> int:
        """The oldest tuple that may still be in a pair."""
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
            "marks": list(waiting.marks),
            "number": waiting.number,
        }
        sides = [side.state() for side in self._sides]
        return {"sides": sides, "waiting": pairs, "next": self._next, "passed": self._passed}

    def load(self, state: State) -> None:
        self._next, self._passed, pairs = state["next"], state["passed"], state["waiting"]
        for keys, side, saved in zip(self._keys, self._sides, state["sides"], strict=True):
            if self._confirmed:  # keys may have been made with another secret
                saved["key"] = row_keys(saved["columns"], len(saved["birth"]), keys, self._secret)
            side.load(saved, self._passed)
        self._waiting = []
        left, right = pairs["marks"]
        self._wait(_Found(pairs["columns"], pairs["start"], (left, right), pairs["number"]))


def _together(parts: list[_Found]) -> _Found:
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    marks = concat_ints([p.marks[0] for p in parts]), concat_ints([p.marks[1] for p in parts])
    number = concat_ints([p.number for p in parts])
    return _Found(concat_columns([p.columns for p in parts]), concat_ints([p.start for p in parts]), marks, number)

"""The pairs of a shared join of ROWS windows that are not dead in all windows. They are kept once and found by the rows
that push their tuples out.

A pair's death differs between windows, but the question is the same for each: which pairs have a tuple with one of
these offsets, which are pushed out? Pairs are stored twice, in pieces ordered by the offset of their left and of their
right tuple. The pieces grow in size, so there are few. One search per piece answers for all windows; each share then
takes its range. Cost: a pair is moved O(log pairs) times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Fills, Ints, concat_ints
from kigen.lifetimes.chunks import State

Sides = tuple[Ints, Ints]
Rows = np.ndarray[Any, np.dtype[np.int64]]  # five per pair: its own number, its tuples' offsets, and their lags
_NUMBER, _ANCHOR, _LAG = 0, 1, 3
_SLACK = 256


@dataclass(frozen=True)
class StepArrivals:
    """The tuples of a stream that arrived in this step: the first offset, and the arrival times."""

    first: int
    at: Ints

    @property
    def after(self) -> int:
        """The offset of the next tuple."""
        return self.first + len(self.at)

    def before(self, time: int) -> StepArrivals:
        """Returns those that arrived before `time`."""
        return StepArrivals(self.first, self.at[: int(np.searchsorted(self.at, time))])

    def since(self, time: int) -> StepArrivals:
        """Returns those that arrived at `time` or later."""
        gone = int(np.searchsorted(self.at, time))
        return StepArrivals(self.first + gone, self.at[gone:])

    def until(self, time: Ints) -> Ints:
        """Returns how many tuples of the stream had arrived by these times, which all lie in this step."""
        return self.first + np.searchsorted(self.at, time, side="right")


@dataclass(frozen=True)
class Stretch:
    """A piece, and for each window the range of pairs whose tuple on `side` is pushed out in this step."""

    side: int
    rows: Rows
    begin: Ints
    stop: Ints


@dataclass(frozen=True)
class Pushed:
    """Pairs of earlier steps that lose a tuple in this one."""

    arrivals: tuple[StepArrivals, StepArrivals]
    stretches: tuple[Stretch, ...] = ()

    def fills(self, place: int, sizes: tuple[int, int], first_holder: int) -> Fills:
        """Returns the deaths in the windows `sizes`, which are at `place`. A pair that loses both tuples comes twice;
        the earlier death counts."""
        found = [self._of(stretch, place, sizes, first_holder) for stretch in self.stretches]
        return Fills.concat(found).sorted()

    def _of(self, stretch: Stretch, place: int, sizes: tuple[int, int], first_holder: int) -> Fills:
        side, other = stretch.side, 1 - stretch.side
        rows = stretch.rows[:, stretch.begin[place] : stretch.stop[place]]
        inside = (rows[_LAG] < sizes[0]) & (rows[_LAG + 1] < sizes[1])
        inside &= (
            rows[_ANCHOR + other] >= self.arrivals[other].first - sizes[other]
        )  # otherwise it died in an earlier step
        mine = self.arrivals[side]
        return Fills(
            first_holder + rows[_NUMBER][inside], mine.at[rows[_ANCHOR + side][inside] + sizes[side] - mine.first]
        )


class OpenPairs:
    """Open pairs of all windows."""

    def __init__(self, sizes: Sides) -> None:
        self._sizes = sizes
        self._widest = tuple(int(s.max()) for s in sizes)
        self._pieces: tuple[list[Rows], list[Rows]] = ([], [])
        self._arrived = [0, 0]

    def __len__(self) -> int:
        return sum(rows.shape[1] for rows in self._pieces[0])

    def pushed_out(self, arrivals: tuple[StepArrivals, StepArrivals]) -> Pushed:
        """Finds the pairs that lose a tuple because of these arrivals."""
        stretches = []
        for side, mine in enumerate(arrivals):
            for rows in self._pieces[side] if len(mine.at) else ():
                begin = np.searchsorted(rows[_ANCHOR + side], mine.first - self._sizes[side])
                stop = np.searchsorted(rows[_ANCHOR + side], mine.after - self._sizes[side])
                stretches.append(Stretch(side, rows, begin, stop))
        return Pushed(arrivals, tuple(stretches))

    def add(self, number: Ints, anchors: Sides, lags: Sides, arrivals: tuple[StepArrivals, StepArrivals]) -> None:
        """Adds the pairs of a step, except those that die within it in all windows."""
        self._arrived = [a.after for a in arrivals]
        rows = self._living(np.stack([number, *anchors, *lags]))
        for side, pieces in enumerate(self._pieces):
            pieces[:] = [p for p in pieces if p[_ANCHOR + side, -1] >= self._arrived[side] - self._widest[side]]
            merged = [rows]
            size = rows.shape[1]
            while pieces and pieces[-1].shape[1] <= 2 * size + _SLACK:
                merged.insert(0, self._living(pieces.pop()))
                size += merged[0].shape[1]
            if size:
                together = np.concatenate(merged, axis=1)
                pieces.append(together[:, np.argsort(together[_ANCHOR + side], kind="stable")])

    def _living(self, rows: Rows) -> Rows:
        """Returns the pairs with both tuples in the widest windows."""
        living = [rows[_ANCHOR + side] >= self._arrived[side] - self._widest[side] for side in (0, 1)]
        return rows[:, living[0] & living[1]]

    def state(self) -> State:
        rows = self._living(np.concatenate([np.empty((5, 0), dtype=np.int64), *self._pieces[0]], axis=1))
        return {"rows": list(rows), "arrived": self._arrived}

    def load(self, state: State) -> None:
        self._arrived = state["arrived"]
        rows = np.stack(state["rows"])
        for side, pieces in enumerate(self._pieces):
            pieces[:] = [rows[:, np.argsort(rows[_ANCHOR + side], kind="stable")]] if rows.shape[1] else []


def numbered(first: int, count: int, most: int) -> Ints:
    """Returns the next numbers. They begin again after `most`, long after the first ones are forgotten."""
    numbers = np.arange(first, first + count)
    return numbers if first + count <= most else concat_ints([numbers[numbers < most], numbers[numbers >= most] - most])

"""Finds all positions of a range whose value exceeds a bound, with a tree of greatest values over an array.

Level 0 is the array itself; an element of level k is the greatest of two elements of level k - 1. Invariant: an element
is at least the greatest value below it. Values may only decrease; `sank` updates the tree along the paths of the
positions that changed. Cost: building is linear; a search costs O((found + 1) log size) per range, all ranges at once
in vector passes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kigen.lifetimes.blocks import Ints, no_ints


class GreatestTree:
    """A tree of greatest values."""

    def __init__(self, values: Ints) -> None:
        """Builds the tree. `values` is kept, not copied."""
        self._levels = [values]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            pairs = len(below) // 2
            level = np.maximum(below[0 : 2 * pairs : 2], below[1 : 2 * pairs : 2])
            self._levels.append(np.append(level, below[-1]) if len(below) % 2 else level)

    def sank(self, index: Ints) -> None:
        """Updates the tree after the values at these positions have decreased."""
        for below, level in pairwise(self._levels):
            index = np.unique(index >> 1)
            level[index] = np.maximum(below[2 * index], below[np.minimum(2 * index + 1, len(below) - 1)])

    def above(self, begin: Ints, stop: Ints, bound: Ints) -> tuple[Ints, Ints]:
        """Returns pairs (number of the range, position in begin:stop) of values greater than the range's bound."""
        mine, place = no_ints(), no_ints()
        for level, (new_mine, new_place) in zip(
            reversed(self._levels), reversed(self._covers(begin, stop, bound)), strict=True
        ):
            if len(mine):
                mine, place = np.repeat(mine, 2), np.repeat(place << 1, 2)
                place[1::2] += 1
                inside = place < len(level)
                mine, place = mine[inside], place[inside]
                high = level[place] > bound[mine]
                mine, place = mine[high], place[high]
            mine, place = np.concatenate([mine, new_mine]), np.concatenate([place, new_place])
        return mine, place

    def _covers(self, begin: Ints, stop: Ints, bound: Ints) -> list[tuple[Ints, Ints]]:
        """Returns for each level the elements that together cover the ranges, each at the highest level possible, and
        only those that exceed the bound."""
        mine = np.arange(len(begin))
        covers = []
        for level in self._levels:
            some = begin < stop
            mine, begin, stop = mine[some], begin[some], stop[some]
            left, right = (begin & 1).astype(np.bool_), (stop & 1).astype(np.bool_)
            left &= begin < stop
            begin = begin + left
            right &= begin < stop
            stop = stop - right
            ranges = np.concatenate([mine[left], mine[right]])
            places = np.concatenate([begin[left] - 1, stop[right]])
            high = level[places] > bound[ranges]
            covers.append((ranges[high], places[high]))
            begin, stop = begin >> 1, stop >> 1
        return covers

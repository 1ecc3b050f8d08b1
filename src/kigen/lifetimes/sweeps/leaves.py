"""Gives the rows of each group places beside one another, so that trees can stand over them.

A group has a *region* of leaves; its size is a power of two. A new row takes the next leaf that was never used. When a
region is full, the rows of its group move to another one, with room for half as many again. So leaves are left empty by
any rows that go, in any order, and a row moves O(1) times per birth. Regions of groups without rows are used again.
Invariant: `row_at[place_of[row]] == row` for each row that is here. Cost: vector passes over the rows that come, go or
move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Ints, Mask, concat_ints, no_ints
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.sweep import changes

Small = np.ndarray[Any, np.dtype[np.int32]]

NONE = -1
_LEAST_LEAVES = 1024


@dataclass(frozen=True)
class Spots:
    """Leaves of rows as nodes of heaps: node i of a region has the children 2i and 2i + 1, and its number in an array
    of all nodes is `base` + i. Ordered by number, each once."""

    row: Ints
    base: Ints
    node: Ints


class Leaves:
    """Places of rows. Rows and groups are small numbers."""

    def __init__(self) -> None:
        self.place_of: Small = np.full(0, NONE, dtype=np.int32)  # by row; NONE: it has none
        self.row_at: Small = np.full(_LEAST_LEAVES, NONE, dtype=np.int32)  # by place
        self._first: Ints = no_ints()  # first place of the region, by group
        self._size: Ints = no_ints()  # of the region, by group; 0: it has none
        self._used: Ints = no_ints()  # places that were given out, by group
        self._live: Ints = no_ints()  # rows, by group
        self._top = 0  # places beyond are in no region
        self._free: dict[int, Ints] = {}  # first places of free regions, by size

    def __len__(self) -> int:
        return int(self._live.sum())

    @property
    def places(self) -> int:
        return len(self.row_at)

    def has(self, row: Ints) -> Mask:
        """Returns which rows have places."""
        known = row < len(self.place_of)
        return known & (self.place_of[np.where(known, row, 0)] != NONE) if len(self.place_of) else known

    def roots(self, group: Ints) -> tuple[Ints, Ints]:
        """Returns the bases of groups and the sizes of their regions, 0 where a group has no row."""
        known = np.minimum(group, max(len(self._size) - 1, 0))
        size = np.where(group < len(self._size), self._size[known], 0) if len(self._size) else np.zeros_like(group)
        return 2 * (self._first[known] if len(self._size) else size), size

    def spots(self, row: Ints, group: Ints) -> Spots:
        """Returns the leaves of rows."""
        place = self.place_of[row].astype(np.int64)
        order = np.argsort(place, kind="stable")  # mostly a few ordered runs
        row, place, group = row[order], place[order], group[order]
        first = self._first[group]
        return Spots(row, 2 * first, self._size[group] + place - first)

    def remove(self, row: Ints, group: Ints) -> None:
        """Takes rows away. A group without rows loses its region."""
        self.row_at[self.place_of[row]] = NONE
        self.place_of[row] = NONE
        np.subtract.at(self._live, group, 1)
        empty = np.unique(group[self._live[group] == 0])
        if len(empty):
            self._release(self._first[empty], self._size[empty])
            self._size[empty] = self._used[empty] = 0

    def add(self, row: Ints, group: Ints, rows: int, groups: int) -> tuple[Ints, Ints, Ints]:
        """Gives places to rows, of which there are fewer than `rows` (and groups fewer than `groups`). Returns the rows
        that have new places, also those that had to move, their groups, and all places of new regions, whose nodes are
        to be cleared."""
        self.place_of = grown(self.place_of, rows, NONE)
        self._first, self._size, self._used, self._live = (
            grown(array, groups) for array in (self._first, self._size, self._used, self._live)
        )
        order = np.argsort(group, kind="stable")
        row, group = row[order], group[order]
        starts = np.flatnonzero(changes(group))
        touched, counts = group[starts], np.diff(np.append(starts, len(group)))
        full = self._used[touched] + counts > self._size[touched]
        cleared = no_ints()
        moved = moved_group = no_ints()
        if bool(full.any()):
            moved, moved_group, cleared = self._move(touched[full], counts[full])
        place = expand(self._first[touched] + self._used[touched], counts)
        self._used[touched] += counts
        self._live[touched] += counts
        self.place_of[row], self.row_at[place] = place, row
        return concat_ints([row, moved]), concat_ints([group, moved_group]), cleared

    def _move(self, group: Ints, more: Ints) -> tuple[Ints, Ints, Ints]:
        """Moves groups to larger regions, with room for `more` rows. Returns their rows, the rows' groups and all
        places of the new regions."""
        place = expand(self._first[group], self._used[group])
        rows, owner = self.row_at[place].astype(np.int64), np.repeat(np.arange(len(group)), self._used[group])
        there = rows != NONE
        rows, owner = rows[there], owner[there]
        self.row_at[place] = NONE
        old = self._size[group] > 0
        self._release(self._first[group[old]], self._size[group[old]])
        live = self._live[group]
        wanted = live + more
        wanted = wanted + (wanted >> 1)
        size = np.int64(1) << np.ceil(np.log2(wanted)).astype(np.int64)
        first = self._regions(size)
        self._first[group], self._size[group], self._used[group] = first, size, live
        new = expand(first, live)
        self.row_at[new], self.place_of[rows] = rows, new
        return rows, group[owner], expand(first, size)

    def _regions(self, size: Ints) -> Ints:
        """Returns the first places of regions of these sizes."""
        first = np.empty(len(size), dtype=np.int64)
        for each in np.unique(size).tolist():
            mine = np.flatnonzero(size == each)
            free = self._free.get(each, no_ints())
            again = min(len(mine), len(free))
            first[mine[:again]], self._free[each] = free[:again], free[again:]
            first[mine[again:]] = self._top + each * np.arange(len(mine) - again)
            self._top += each * (len(mine) - again)
        if self._top > len(self.row_at):
            self.row_at = grown(self.row_at, 1 << self._top.bit_length(), NONE)
        return first

    def _release(self, first: Ints, size: Ints) -> None:
        for each in np.unique(size).tolist():
            self._free[each] = concat_ints([self._free.get(each, no_ints()), first[size == each]])

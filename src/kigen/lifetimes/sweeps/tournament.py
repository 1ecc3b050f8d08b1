"""Finds the first row of each group, and its first n rows, while rows come and go in any order: a tree of winners over
the leaves of each group (kigen.lifetimes.sweeps.leaves).

Each node has the better row of its two children. A row that comes or goes changes only nodes above its leaf, and only
as long as the winner there changes. The first n rows lie below the n best nodes of each level, so they are found from
the root down. Rows are compared by one integer; those with equal integers are compared by their columns, if these say
more. Cost: O(log rows) per row that comes or goes, and O(n log rows) per question, in vector passes; it does not depend
on the order in which rows go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.sweeps.leaves import NONE, Leaves, Small, Spots
from kigen.lifetimes.sweeps.sweep import changes

Ranks = Callable[[Ints], Ints]  # the place of each of some rows in their order


class Tournament:
    """Winners of the groups. `ranks` orders rows whose integers are equal; None: they are as good as one another."""

    def __init__(self, leaves: Leaves, ranks: Ranks | None) -> None:
        self._leaves, self._ranks = leaves, ranks
        self._nodes: Small = np.full(2 * leaves.places, NONE, dtype=np.int32)
        self.key: Ints = np.zeros(0, dtype=np.int64)  # by row: the least is the best

    def remove(self, spots: Spots) -> None:
        """Takes away the rows of leaves, before the leaves lose them."""
        self._nodes[spots.base + spots.node] = NONE
        self._rise(spots)

    def add(self, spots: Spots, cleared: Ints, takes_part: Mask | None = None) -> None:
        """Adds rows that have leaves, and clears the nodes of the places `cleared`. `takes_part` are rows that may win,
        by row; None: all."""
        self._nodes = grown(self._nodes, 2 * self._leaves.places, NONE)
        self._nodes[2 * cleared] = self._nodes[2 * cleared + 1] = NONE
        self._nodes[spots.base + spots.node] = (
            spots.row if takes_part is None else np.where(takes_part[spots.row], spots.row, NONE)
        )
        self._rise(spots)

    def _rise(self, spots: Spots) -> None:
        base, node = spots.base, spots.node
        while True:
            below = node > 1
            if not bool(below.all()):
                base, node = base[below], node[below]
            if not len(node):
                return
            node = node >> 1
            number = base + node
            different = changes(number)
            base, node, number = base[different], node[different], number[different]
            left = base + 2 * node
            winner = self._better(self._nodes[left], self._nodes[left + 1])
            new = winner != self._nodes[number]
            self._nodes[number] = winner
            base, node = base[new], node[new]

    def _better(self, left: Small, right: Small) -> Small:
        both = (left != NONE) & (right != NONE)
        of_left, of_right = self.key[left], self.key[right]
        wins = (left == NONE) | (both & (of_right < of_left))
        if self._ranks is not None:
            equal = np.flatnonzero(both & (of_right == of_left))
            if len(equal):
                ranks = self._ranks(np.concatenate([left[equal], right[equal]]).astype(np.int64))
                wins[equal] = ranks[len(equal) :] < ranks[: len(equal)]
        better: Small = np.where(wins, right, left)
        return better

    def best(self, group: Ints) -> Ints:
        """Returns the best row of each group, NONE if it has none."""
        base, size = self._leaves.roots(group)
        here = size > 0
        best: Ints = np.where(here, self._nodes[np.where(here, base + 1, 0)].astype(np.int64), NONE)
        return best

    def first(self, group: Ints, count: int) -> Ints:
        """Returns the first `count` rows of each of these different groups, or all it has, in no order."""
        base, size = self._leaves.roots(group)
        owner = np.flatnonzero(size > 0)
        base, size, node = base[owner], size[owner], np.ones(len(owner), dtype=np.int64)
        while True:
            inner = node < size
            if not bool(inner.any()):
                rows = self._nodes[base + node].astype(np.int64)
                there: Ints = rows[rows != NONE]
                return there
            # Nodes that are leaves already stay; the others give way to their children.
            stay = ~inner
            base = np.concatenate([base[stay], np.repeat(base[inner], 2)])
            size = np.concatenate([size[stay], np.repeat(size[inner], 2)])
            owner = np.concatenate([owner[stay], np.repeat(owner[inner], 2)])
            children = np.repeat(2 * node[inner], 2)
            children[1::2] += 1
            node = np.concatenate([node[stay], children])
            there = self._nodes[base + node] != NONE
            kept = np.flatnonzero(there)
            kept = kept[self._among_first(owner[kept], self._nodes[(base + node)[kept]].astype(np.int64), count)]
            base, size, owner, node = base[kept], size[kept], owner[kept], node[kept]

    def _among_first(self, owner: Ints, row: Ints, count: int) -> Ints:
        """Returns the places of the first `count` rows of each owner."""
        key = self.key[row]
        if len(row) <= count:
            return np.arange(len(row))
        order = np.lexsort((key, owner))
        if self._ranks is not None:
            same = ~changes(owner[order])
            same[1:] &= key[order][1:] == key[order][:-1]
            if bool(same.any()):
                order = np.lexsort((self._ranks(row), key, owner))
        begins = np.flatnonzero(changes(owner[order]))
        lengths = np.diff(np.append(begins, len(order)))
        return order[np.arange(len(order)) - np.repeat(begins, lengths) < count]

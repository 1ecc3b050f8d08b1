"""The best rows of groups while rows come and go, compared with sorting all live rows after every change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.lifetimes.blocks import Ints
from kigen.lifetimes.sweeps.leaves import Leaves
from kigen.lifetimes.sweeps.tournament import Tournament

ROWS, GROUPS = 64, 5
# Rows that leave, and rows that come with group and key: few different keys, so that many are equal.
CHANGE = st.tuples(
    st.sets(st.integers(0, ROWS - 1)),
    st.dictionaries(st.integers(0, ROWS - 1), st.tuples(st.integers(0, GROUPS - 1), st.integers(-2, 2))),
)


class Model:
    """Rows with group and key by number. Rows of equal keys are ordered by number, the greatest first."""

    def __init__(self, ties: bool) -> None:
        self.leaves, self.alive = Leaves(), dict[int, tuple[int, int]]()
        self.ties = ties
        self.tree = Tournament(self.leaves, self._ranks if ties else None)
        self.tree.key = np.zeros(ROWS, dtype=np.int64)

    @staticmethod
    def _ranks(rows: Ints) -> Ints:
        return np.argsort(np.argsort(-rows, kind="stable"), kind="stable")

    def change(self, gone: set[int], come: dict[int, tuple[int, int]]) -> None:
        leaving = np.array([row for row in gone if row in self.alive], dtype=np.int64)
        if len(leaving):
            groups = np.array([self.alive.pop(row)[0] for row in leaving.tolist()], dtype=np.int64)
            self.tree.remove(self.leaves.spots(leaving, groups))
            self.leaves.remove(leaving, groups)
        new = {row: value for row, value in come.items() if row not in self.alive}
        if new:
            rows = np.array(list(new), dtype=np.int64)
            groups, keys = (np.array([value[k] for value in new.values()], dtype=np.int64) for k in range(2))
            self.tree.key[rows] = keys
            changed, owner, cleared = self.leaves.add(rows, groups, ROWS, GROUPS)
            self.tree.add(self.leaves.spots(changed, owner), cleared)
            self.alive |= new

    def order(self, group: int) -> list[int]:
        rows = [row for row, (owner, _) in self.alive.items() if owner == group]
        return sorted(rows, key=lambda row: (self.alive[row][1], -row))


@settings(max_examples=200, deadline=None)
@given(st.lists(CHANGE, max_size=12), st.booleans())
def test_best_and_first(changes: list[tuple[set[int], dict[int, tuple[int, int]]]], ties: bool) -> None:
    model = Model(ties)
    groups = np.arange(GROUPS)
    for gone, come in changes:
        model.change(gone, come)
        orders = [model.order(group) for group in range(GROUPS)]
        best = model.tree.best(groups).tolist()
        keys = [model.alive[order[0]][1] if order else None for order in orders]
        assert [None if row < 0 else model.alive[row][1] for row in best] == keys
        if ties:
            assert best == [order[0] if order else -1 for order in orders]
        for count in (1, 3, 100):
            first = sorted(model.tree.first(groups, count).tolist())
            if ties:
                assert first == sorted(row for order in orders for row in order[:count])
            wanted = sorted(model.alive[row] for order in orders for row in order[:count])
            assert sorted(model.alive[row] for row in first) == wanted


@pytest.mark.parametrize("turn", ["oldest", "newest", "best"])
def test_a_long_life(turn: str) -> None:
    """Regions are left and used again many times; they do not grow with all rows that ever came."""
    model, rng = Model(ties=True), np.random.default_rng(4)
    for step in range(400):
        gone = {
            "oldest": sorted(model.alive, key=lambda row: (row - step) % ROWS)[:7],
            "newest": sorted(model.alive, key=lambda row: (step - row) % ROWS)[:7],
            "best": [row for group in range(GROUPS) for row in model.order(group)[:2]],
        }[turn]
        new = {int(row): (int(rng.integers(GROUPS)), int(rng.integers(9))) for row in rng.integers(0, ROWS, 12)}
        model.change(set(gone), new)
        assert model.tree.best(np.arange(GROUPS)).tolist() == [(model.order(g) or [-1])[0] for g in range(GROUPS)]
    assert model.leaves.places <= 1024


def test_a_region_shrinks_when_it_is_used_up() -> None:
    leaves = Leaves()
    tree = Tournament(leaves, None)
    tree.key = np.zeros(5000, dtype=np.int64)
    zeros = np.zeros(5000, dtype=np.int64)
    every = np.arange(5000)
    rows, groups, cleared = leaves.add(every, zeros, 5000, 1)
    tree.add(leaves.spots(rows, groups), cleared)
    tree.remove(leaves.spots(every[10:], zeros[10:]))
    leaves.remove(every[10:], zeros[10:])
    for begin in range(10, 5000, 499):
        few = every[begin : begin + 499]
        rows, groups, cleared = leaves.add(few, zeros[: len(few)], 5000, 1)
        tree.add(leaves.spots(rows, groups), cleared)
        tree.remove(leaves.spots(few, zeros[: len(few)]))
        leaves.remove(few, zeros[: len(few)])
    assert leaves.roots(np.zeros(1, dtype=np.int64))[1].tolist() == [1024]
    assert tree.first(np.zeros(1, dtype=np.int64), 20).size == 10

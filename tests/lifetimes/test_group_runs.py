"""The order of events by group and time, however they lie: against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest

from kigen.lifetimes.blocks import Ints
from kigen.lifetimes.sweeps.sweep import group_runs

ROWS = 4_000


def _slots(kind: str, rng: np.random.Generator) -> Ints:
    """Draws slots: few, many at random, or many in rising and falling runs, as tables give them out."""
    if kind == "one":
        return np.full(ROWS, 5)
    if kind == "few":
        return rng.integers(0, 7, ROWS)
    if kind == "many":
        return rng.integers(0, 200_000, ROWS)
    rising = np.arange(ROWS // 4) + 100_000
    return np.concatenate([rising, rising[::-1], rising, rising[::-1]])


def _times(kind: str, rng: np.random.Generator) -> Ints:
    if kind == "rising":
        return np.sort(rng.integers(0, 3_000, ROWS))
    if kind == "equal":
        return np.zeros(ROWS, dtype=np.int64)
    if kind == "wide":  # slot and time do not fit into one integer
        return rng.integers(-(2**61), 2**61, ROWS)
    return rng.integers(1_700_000_000_000_000, 1_700_000_000_000_900, ROWS)


@pytest.mark.parametrize("times", ["rising", "equal", "wide", "any"])
@pytest.mark.parametrize("slots", ["one", "few", "many", "runs"])
@pytest.mark.parametrize("rows", [1, 200, ROWS])
def test_runs_are_ordered_by_slot_and_time_and_keep_their_events(slots: str, times: str, rows: int) -> None:
    rng = np.random.default_rng(1)
    slot, time = _slots(slots, rng)[:rows], _times(times, rng)[:rows]
    runs = group_runs(slot, time)
    expected = sorted(range(rows), key=lambda event: (slot[event], time[event], event))
    assert runs.order.tolist() == expected
    pairs = [(int(slot[e]), int(time[e])) for e in expected]
    begins = [i for i in range(rows) if i == 0 or pairs[i] != pairs[i - 1]]
    assert runs.begin.tolist() == begins
    assert list(zip(runs.slot.tolist(), runs.time.tolist(), strict=True)) == [pairs[i] for i in begins]
    assert runs.first.tolist() == [i == 0 or pairs[i][0] != pairs[i - 1][0] for i in begins]


def test_no_events() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert len(group_runs(empty, empty)) == 0

"""The load shedder keeps the most valuable tuples, never more than the rate, however the stream is cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest

from kigen.schedule import LoadShedder


def test_keeps_the_most_valuable_of_a_second() -> None:
    kept = LoadShedder(2).keep(np.array([0, 1, 2, 3]), np.array([5.0, 9.0, np.nan, 7.0]), now_us=1_000_000)
    assert kept.tolist() == [False, True, False, True]


def test_without_values_the_earliest_stay() -> None:
    assert LoadShedder(2).keep(np.array([0, 1, 2]), now_us=999_999).tolist() == [True, True, False]


def test_a_block_early_in_its_second_leaves_room_for_later() -> None:
    shedder = LoadShedder(10)
    early = shedder.keep(np.arange(100) * 1000, np.ones(100), now_us=99_999)
    late = shedder.keep(900_000 + np.arange(50) * 1000, np.ones(50), now_us=999_999)
    assert (early.sum(), late.sum()) == (1, 9)


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_no_second_keeps_more_than_the_rate(blocks: int) -> None:
    rng = np.random.default_rng(1)
    arrivals = np.sort(rng.integers(0, 5_000_000, 5000))
    shedder, seconds = LoadShedder(300), []
    for part in np.array_split(arrivals, blocks):
        kept = shedder.keep(part, rng.random(len(part)))
        seconds += (part[kept] // 1_000_000).tolist()
    counts = np.bincount(seconds)
    assert counts.max() <= 300
    assert counts.sum() >= 5 * 280
    assert (shedder.offered, shedder.shed) == (5000, 5000 - counts.sum())


def test_below_the_rate_nothing_goes() -> None:
    shedder = LoadShedder(1000)
    arrivals = np.arange(0, 3_000_000, 2000)
    assert all(shedder.keep(part, np.zeros(len(part))).all() for part in np.array_split(arrivals, 50))

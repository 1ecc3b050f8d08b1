"""Tests the way through partitions: every index has its offsets, and nothing ever goes back."""

from __future__ import annotations

import random

import pytest

from kigen.connectors.kafka.path import Path, between


@pytest.mark.parametrize("seed", range(20))
def test_offsets_grow_with_the_index(seed: int) -> None:
    rng = random.Random(seed)
    ends = {f"t/{p}": rng.randint(0, 50) for p in range(rng.randint(1, 5))}
    path = Path({0: dict(ends)}, 0)
    start = sum(ends.values())
    for look in range(1, 8):
        if rng.random() < 0.3:
            ends[f"t/{len(ends)}"] = rng.choice([0, 3, 1000])
        ends = {name: end + rng.choice([0, 0, 1, 7, 600, 2000]) for name, end in ends.items()}
        path.extend(ends, look)
    assert path.ends() == ends
    assert path.known == sum(ends.values()) - start
    before: dict[str, int] = {}
    indexes = sorted({0, path.known, *(rng.randint(0, path.known) for _ in range(200))})
    for index in indexes:
        here = path.offsets(index)
        assert sum(here.values()) - start == index
        assert all(here[name] >= offset for name, offset in before.items())
        before = here
    times = path.arrivals_us(0, path.known).tolist()
    assert times == sorted(times)
    middle = rng.choice(indexes)
    kept = {index: path.offsets(index) for index in indexes if index >= middle}
    path.forget_before(middle)
    assert {index: path.offsets(index) for index in kept} == kept
    again = Path(
        {index: kept[index] for index in rng.sample(sorted(kept), min(3, len(kept)))} | {middle: kept[middle]}, 9
    )
    again.extend(ends, 10)
    assert again.known == path.known


def test_partitions_advance_in_proportion() -> None:
    here = between({"t/0": 10}, {"t/0": 10_010, "t/1": 1_000}, 5_500)
    assert here == {"t/0": 5_010, "t/1": 500}
    assert between({"t/0": 0, "t/1": 0}, {"t/0": 3, "t/1": 3}, 4) == {"t/0": 3, "t/1": 1}

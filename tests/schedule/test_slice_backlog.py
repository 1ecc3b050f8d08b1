"""Compares the backlog with a list of tuples that is searched from end to end."""

from __future__ import annotations

import random

import pytest

from kigen.schedule.slices import backlog as module
from kigen.schedule.slices.backlog import Backlog

QUERIES = 4


class Plain:
    """Keeps every tuple by itself: [range, stream, level, gone]."""

    def __init__(self) -> None:
        self.tuples: list[list[int]] = []
        self.ranges = 0

    def waiting(self) -> list[list[int]]:
        return [t for t in self.tuples if not t[3] and t[2] < QUERIES]

    def of(self, stream: int) -> list[list[int]]:
        return [t for t in self.tuples if t[1] == stream]


@pytest.mark.parametrize("seed", range(30))
def test_as_a_plain_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORGET", 3)
    rng = random.Random(seed)
    fast, slow = Backlog(QUERIES, (None, None)), Plain()
    for _ in range(200):
        event = rng.random()
        if event < 0.4:
            stream, count, level = rng.randrange(2), rng.randint(1, 3), rng.choice([0, 0, 0, 2, QUERIES])
            assert fast.arrived(stream, count, level) == slow.ranges
            slow.tuples += [[slow.ranges, stream, level, 0] for _ in range(count)]
            slow.ranges += 1
        elif event < 0.6:
            stream, count = rng.randrange(2), rng.randint(1, 4)
            leaving = [t for t in slow.of(stream) if not t[3]][:count]
            lost = [level for level, tuples in fast.evict(stream, count) for _ in range(tuples)]
            assert lost == [t[2] for t in leaving if t[2] < QUERIES]
            for t in leaving:
                t[3] = 1
        elif slow.waiting():
            id, _, level, _ = rng.choice(slow.waiting())
            stream, first, count = fast.where(id)
            assert [t[0] for t in slow.of(stream)[first : first + count]] == [id] * count
            assert not any(t[3] for t in slow.of(stream)[first : first + count])
            fast.raise_level(id, level + 1)
            for t in slow.tuples:
                t[2] += t[0] == id
        waiting = slow.waiting()
        assert fast.oldest() == min((t[0] for t in waiting), default=None)
        for level in range(QUERIES):
            assert fast.oldest_at(level) == min((t[0] for t in waiting if t[2] == level), default=None)
        for stream in range(2):
            kept = dict.fromkeys((t[0], t[2]) for t in slow.of(stream) if not t[3])
            ids, levels, _ = fast.kept(stream)
            assert list(zip(ids.tolist(), levels.tolist(), strict=True)) == list(kept)


def test_kept_up_to_a_tuple() -> None:
    backlog = Backlog(QUERIES, (10,))
    for _ in range(3):
        backlog.arrived(0, 2)
    backlog.evict(0, 1)
    assert backlog.lanes[0].free == 5
    for upto, size in ((2, 1), (3, 2), (4, 2), (5, 3), (99, 3)):
        assert len(backlog.kept(0, upto)[0]) == size

"""Lazy sorting and waiting for fills, compared with lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, empty_columns
from kigen.lifetimes.chunks import chunk_of
from kigen.lifetimes.live_tuples import LiveTuples

BIRTHS = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=12)


def block(births: list[tuple[int, int, int]], fills: list[tuple[int, int]]) -> Block:
    start, end, holder = (np.array([b[k] for b in births], dtype=np.int64) for k in range(3))
    return Block(
        empty_columns(()),
        start,
        end,
        holder,
        Fills(*(np.array([f[k] for f in fills], dtype=np.int64) for k in range(2))),
    )


def test_chunks_with_mixed_holders_are_few() -> None:
    """Holders of pairs lie anywhere. Chunks are merged by size, and none is lost."""
    rng, alive, waiting = np.random.default_rng(3), LiveTuples(()), dict[int, int]()
    for step in range(300):
        numbers = np.arange(step * 20, step * 20 + 20)
        holders = numbers * 7919 % 100_003  # different, in no order
        filled = rng.choice(sorted(waiting), size=18, replace=False).tolist() if len(waiting) > 900 else []
        rows = [(n, FOREVER, h) for n, h in zip(numbers.tolist(), holders.tolist(), strict=True)]
        given = block(rows, [(h, step) for h in filled])
        dead = alive.absorb(chunk_of(given), given.fills, step + 1)
        assert sorted(dead.start.tolist()) == sorted(waiting.pop(h) for h in filled)
        waiting |= {h: n for n, _, h in rows}
        assert len(alive) == len(waiting)
        assert len(alive.waiting.chunks()) <= 12
    last = block([], [(h, 999) for h in waiting])
    assert sorted(alive.absorb(chunk_of(last), last.fills, 1000).start.tolist()) == sorted(waiting.values())
    assert len(alive) == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(BIRTHS, max_size=10), st.data(), st.booleans())
def test_everyone_dies_once_and_in_time(steps: list[list[tuple[int, bool]]], data: st.DataObject, mixed: bool) -> None:
    alive, known, waiting, number = LiveTuples(()), [], {}, 0
    for i, births in enumerate(steps):
        now = (i + 1) * 8
        filled = data.draw(st.lists(st.sampled_from(sorted(waiting)), unique=True)) if waiting else []
        fills = [(h, now - 1) for h in filled]
        rows = []
        for end, is_open in births:
            holder = number * 7919 % 1009 if mixed else number
            rows.append((number, FOREVER, holder) if is_open else (number, end, NO_HOLDER))
            number += 1
        given = block(rows, fills)
        dead = alive.absorb(chunk_of(given), given.fills, now)
        expected = sorted(
            [(waiting.pop(h), now - 1) for h in filled]
            + [(s, e) for s, e in known if e < now]
            + [(s, e) for s, e, h in rows if h == NO_HOLDER and e < now]
        )
        known = [(s, e) for s, e in known if e >= now] + [(s, e) for s, e, h in rows if h == NO_HOLDER and e >= now]
        waiting |= {h: s for s, _, h in rows if h != NO_HOLDER}
        assert sorted(zip(dead.start.tolist(), dead.end.tolist(), strict=True)) == expected
        assert len(alive) == len(known) + len(waiting)

"""The greatest value over ranges, compared with a loop over all positions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.lifetimes.aggregates.range_max import NOTHING, greatest

INTERVAL = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 9))


@settings(max_examples=300, deadline=None)
@given(st.lists(INTERVAL, max_size=30))
def test_greatest(intervals: list[tuple[int, int, int]]) -> None:
    begin, stop, rank = (np.array([i[k] for i in intervals], dtype=np.int64) for k in range(3))
    slow = [max((r for b, s, r in intervals if b <= p < s), default=NOTHING) for p in range(41)]
    assert greatest(begin, stop, rank, 41).tolist() == slow

"""The index of arrived rows: it answers like a list of all rows would, in bounded memory."""

from __future__ import annotations

import random
import time
import tracemalloc

import numpy as np
import pytest

from kigen.spark.links.arrived_rows import ArrivedRows


@pytest.mark.parametrize("seed", range(20))
def test_looks_agree_with_a_list_of_all_rows(seed: int) -> None:
    rng = random.Random(seed)
    followed, times, watermarks, progress = ArrivedRows(0), list[int](), list[bool](), list[tuple[int, int]]()
    newest = looked = 0
    for _ in range(60):
        count = rng.randint(1, 9)
        flags = np.array([rng.random() < 0.3 for _ in range(count)])
        arrived = np.array([rng.randrange(10_000) for _ in range(count)], np.int64)
        followed.add(len(times), arrived, flags)
        for flag, value in zip(flags.tolist(), arrived.tolist(), strict=True):
            newest = newest if flag else max(newest, value)
            times.append(newest)
            watermarks.append(flag)
            if flag:
                progress.append((len(times), value))
        if rng.random() < 0.7:
            end = rng.randint(looked, followed.known) if followed.known > looked else looked
            if end > looked:
                got_times, got_marks, follows_a_tuple = followed.poll(looked, end)
                assert got_times.tolist() == times[looked:end]
                assert got_marks.tolist() == watermarks[looked:end]
                assert follows_a_tuple == (looked > 0 and not watermarks[looked - 1])
            looked = max(looked, end)
        if looked and rng.random() < 0.3:
            followed.acknowledged(rng.randint(0, looked))
        number = rng.randint(looked, len(times))
        expected = [us for at, us in progress if at <= number]
        assert followed.progress_before(number) == (expected[-1] if expected else None)


def test_ten_million_rows_stay_in_bounded_memory() -> None:
    """Blocks of 2,000 rows end with a watermark row each, and are polled and acknowledged as they arrive."""
    followed, size = ArrivedRows(0), 2_000
    arrived, watermarks = np.arange(size, dtype=np.int64), np.zeros(size, np.bool_)
    watermarks[-1] = True
    tracemalloc.start()
    worst_s, at_first, most = 0.0, 0, 0
    try:
        for block in range(5_000):
            offset = block * size
            followed.add(offset, arrived + offset, watermarks)
            began = time.thread_time()
            times, _, _ = followed.poll(offset, followed.known)
            assert followed.progress_before(followed.known) is not None
            worst_s = max(worst_s, time.thread_time() - began)
            assert len(times) == size
            if block % 50 == 0:
                followed.acknowledged(offset)
            if block == 500:
                at_first = tracemalloc.get_traced_memory()[0]
            if block > 500:
                most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert followed.known == 10_000_000
    assert followed.rows <= 2 * size
    assert followed.watermarks <= 60
    assert most < at_first + 200_000, "bytes"
    assert worst_s < 0.05

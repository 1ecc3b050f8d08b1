"""Checks the shared join in virtual time: sums of counts, a slow reference, MQT's drops, and the bound below every
policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from kigen_lab.simulate.shared_joins.bound import fifo_limit, least_drops
from kigen_lab.simulate.shared_joins.join_simulation import JoinSetting, MakePolicy, simulate_join
from kigen_lab.simulate.shared_joins.window_sets import paper_windows, random_windows

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.slices import SLICE_POLICY_NAMES, Fifo, SlicePolicy, make_slice_policy

SMALL = JoinSetting(
    paper_windows("p4"), speed=6.6, buffer=250, stages=((25.0, 7.0), (25.0, 1.0), (25.0, 7.0), (25.0, 1.0))
)


def named(name: str, **settings: float) -> MakePolicy:
    def make(hull: WindowHull, buffers: Sequence[int | None]) -> SlicePolicy:
        return make_slice_policy(name, hull, buffers, **settings)

    return make


def slow_fifo(setting: JoinSetting) -> tuple[int, int]:
    """Returns (processed, dropped) queries, tuple by tuple: each runs its slices unless it has left before a slice
    begins.
    """
    arrivals = setting.arrivals_s().tolist()
    undone = (setting.buffer - setting.done_at_start) * setting.streams
    born = [0.0] * undone + arrivals
    leave = arrivals[setting.done_at_start * setting.streams :] + [float("inf")] * (
        len(born) - len(arrivals) + setting.done_at_start * 2
    )
    seconds = np.diff(setting.windows, prepend=0.0) / (setting.speed * setting.windows[-1])
    now, processed, dropped = 0.0, 0, 0
    for index in range(len(born)):
        now = max(now, born[index])
        for query, took in enumerate(seconds):
            if now >= setting.end_s:
                break
            if now >= leave[index]:
                dropped += len(seconds) - query
                break
            now += took
            processed += index >= undone
    return processed, dropped


@pytest.mark.parametrize("load", [0.5, 1.0, 1.7, 2.6])
def test_fifo_as_by_hand(load: float) -> None:
    setting = SMALL.scaled(load)
    outcome = simulate_join(setting, Fifo)
    processed, dropped = slow_fifo(setting)
    assert outcome.stages[-1].processed == pytest.approx(processed, abs=3)  # ties of arrival and end, by rounding
    assert outcome.dropped == pytest.approx(dropped, abs=12)


@pytest.mark.parametrize("name", SLICE_POLICY_NAMES)
def test_counts_add_up_and_the_processor_never_rests(name: str) -> None:
    setting = SMALL.scaled(2.0)
    kept: list[SlicePolicy] = []

    def make(hull: WindowHull, buffers: Sequence[int | None]) -> SlicePolicy:
        kept.append(make_slice_policy(name, hull, buffers))
        return kept[-1]

    last = simulate_join(setting, make).stages[-1]
    waiting = 0
    for stream, lane in enumerate(kept[0].backlog.lanes):
        _, levels, ends = kept[0].backlog.kept(stream)
        waiting += int((10 - levels[ends > setting.buffer]).sum())
        assert lane.end - lane.first == setting.buffer
    assert last.processed + last.dropped + waiting == last.arrived == 10 * len(setting.arrivals_s())
    assert simulate_join(setting, named(name)).busy_s == pytest.approx(setting.end_s, abs=0.2)


@pytest.mark.parametrize(
    ("name", "drops"),
    [("p1", True), ("p2", False), ("p3", False), ("p4", True), ("p5", False), ("p6", False), ("p8", True)],
)
def test_mqt_drops_where_the_paper_says_and_fifo_nowhere(name: str, drops: bool) -> None:
    setting = replace(SMALL, windows=paper_windows(name))
    assert (simulate_join(setting, named("mqt")).dropped > 0) == drops
    assert simulate_join(setting, Fifo).dropped == 0


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_is_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    setting = replace(SMALL, windows=random_windows(seed)).scaled(float(rng.uniform(1.3, 3.0)))
    bound = least_drops(setting, block=4)
    assert 0 < bound.dropped < bound.offered
    assert bound.dropped <= least_drops(setting, block=1).dropped + 1e-6
    for name in SLICE_POLICY_NAMES:
        assert simulate_join(setting, named(name)).dropped >= bound.dropped


def test_the_bound_of_one_group_is_what_fifo_of_whole_tuples_loses() -> None:
    """With one query, every tuple costs the same, so it is best to run as many as time allows."""
    setting = JoinSetting((10.0,), speed=1.0, stages=((1000.0, 3.0),), buffer=100, done_share=1.0, streams=1)
    bound = least_drops(setting, block=1)
    assert bound.offered == 2900
    assert bound.dropped == pytest.approx(1900, abs=3)
    assert simulate_join(setting, Fifo).dropped == pytest.approx(1900, abs=5)


def test_fifo_begins_to_drop_at_its_limit() -> None:
    limit = fifo_limit(SMALL)
    assert simulate_join(SMALL.scaled(0.99 * limit), Fifo).dropped == 0
    assert least_drops(SMALL.scaled(0.99 * limit)).dropped == 0
    assert simulate_join(SMALL.scaled(1.03 * limit), Fifo).dropped > 0


@pytest.mark.parametrize("name", ["p1", "p3", "p4", "p8"])
@pytest.mark.parametrize("times", [1.5, 2.0])
def test_salvage_at_an_even_rate_is_near_the_bound_and_below_both(name: str, times: float) -> None:
    setting = JoinSetting(paper_windows(name), 6.6, ((200.0, 3.3),), 500)
    setting = setting.scaled(times * fifo_limit(setting))
    salvage = simulate_join(setting, named("salvage")).dropped
    assert salvage <= 1.1 * least_drops(setting).dropped
    assert salvage <= min(simulate_join(setting, named(other)).dropped for other in ("fifo", "mqt"))


def test_hulls_of_random_windows_differ() -> None:
    assert len({window_hull(random_windows(seed)).order for seed in range(10)}) > 5

"""Tests the policies of shared joins: what they run next, what they lose, and the interface's rules under random
events.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import pytest
from kigen_lab.simulate.shared_joins.window_sets import random_windows

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.slices import SLICE_POLICY_NAMES, AdMandF, Fifo, MandF, Mqt, Salvage, SlicePolicy, make_slice_policy
from kigen.schedule.slices.slice_policies import SlicePolicyError

TWO_GROUPS = window_hull((10.0, 12.0, 112.0, 114.0))  # 1-2, 3-4
S = 1e6


def runs(policy: SlicePolicy, units: int, now_us: float = 0.0) -> list[tuple[int, int, int]]:
    """Returns (stream, tuple, query) of the next slices."""
    found = []
    for _ in range(units):
        for unit in policy.next(now_us):
            found.append((unit.stream, unit.first, unit.high))
            policy.completed(unit.work, 1.0)
    return found


def two_tuples(make: type[SlicePolicy]) -> SlicePolicy:
    policy = make(TWO_GROUPS, (100, 100))
    policy.arrived(0, 1)
    policy.arrived(1, 1)
    return policy


def test_fifo_runs_all_slices_of_the_oldest_first() -> None:
    assert runs(two_tuples(Fifo), 9) == [(stream, 0, query) for stream in (0, 1) for query in (1, 2, 3, 4)]


def test_mqt_runs_group_by_group() -> None:
    policy = two_tuples(Mqt)
    assert runs(policy, 5) == [(0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 0, 2), (0, 0, 3)]
    policy.arrived(0, 1)  # its first group is steeper, but not than what is left of a group that was begun
    assert runs(policy, 5) == [(0, 0, 4), (0, 1, 1), (0, 1, 2), (1, 0, 3), (1, 0, 4)]


def test_a_budget_makes_longer_units() -> None:
    policy = Mqt(TWO_GROUPS, (None,))
    policy.arrived(0, 5)
    policy.arrived(0, 3)
    first, second = policy.next(0.0, 100.0)
    assert (first.first, first.count, first.low, first.high, first.work) == (0, 5, 0, 2, 60.0)
    assert (second.first, second.count, second.low, second.high, second.work) == (5, 3, 0, 2, 36.0)
    assert [unit.work for unit in policy.next(0.0, 1.0)] == [500.0]  # more than the budget, but something must run


def test_what_eviction_loses_is_counted_by_query() -> None:
    policy = Fifo(TWO_GROUPS, (4,))
    policy.arrived(0, 2)
    policy.arrived(0, 2)
    policy.next(0.0)
    assert policy.evicted(0, 3) == [1, 3, 3, 3]
    assert policy.evicted(0, 3) == [1, 1, 1, 1]
    assert policy.next(0.0) == []


@pytest.mark.parametrize("name", SLICE_POLICY_NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_each_slice_once_in_order_and_never_after_eviction(name: str, seed: int) -> None:
    rng = random.Random(seed)
    hull = window_hull(random_windows(seed, queries=6, largest=50))
    size = 30
    policy = make_slice_policy(name, hull, (size, size))
    levels: list[list[int]] = [[], []]
    gone, dropped, now_us = [0, 0], [0] * 6, 0.0
    for step in range(1500):
        if rng.random() < (0.1 if step < 300 else 0.6):
            stream, count = rng.randrange(2), rng.randint(1, 4)
            leaving = max(0, len(levels[stream]) - gone[stream] + count - size)
            lost = policy.evicted(stream, leaving) if leaving else [0] * 6
            left = levels[stream][gone[stream] : gone[stream] + leaving]
            assert lost == [sum(level <= query for level in left) for query in range(6)]
            dropped = [a + b for a, b in zip(dropped, lost, strict=True)]
            gone[stream] += leaving
            policy.arrived(stream, count)
            levels[stream] += [0] * count
        units = policy.next(now_us, rng.choice([0.0, 0.0, 0.0, 100.0]))
        assert units or all(level == 6 for stream in range(2) for level in levels[stream][gone[stream] :])
        for unit in units:
            assert unit.first >= gone[unit.stream]
            assert unit.work == pytest.approx(unit.count * sum(hull.work[unit.low : unit.high]))
            for tuple_ in range(unit.first, unit.first + unit.count):
                assert levels[unit.stream][tuple_] == unit.low
                levels[unit.stream][tuple_] = unit.high
            policy.completed(unit.work, unit.work * 3000.0)
            now_us += unit.work * 3000.0
    assert sum(dropped) > 0
    assert policy.report()["policy"] == name


def fed(policy: SlicePolicy, count: int, until_us: float) -> list[bool]:
    """Adds `count` tuples to a full buffer of 100 every half second. Returns whether FIFO was used."""
    assert isinstance(policy, MandF)
    orders = []
    for step in range(1, int(until_us / 5e5) + 1):
        policy.evicted(0, count)
        policy.arrived(0, count)
        policy.measure(step * 5e5)
        orders.append(policy.in_order)
    return orders


def full(make: partial[MandF] | type[MandF], done: int, level: int = 4) -> MandF:
    policy = make(TWO_GROUPS, (100,))
    policy.arrived(0, done, level)
    policy.arrived(0, 100 - done)
    policy.measure(0.0)
    return policy


def test_mandf_turns_to_fifo_when_undone_work_is_about_to_leave() -> None:
    assert (
        fed(full(MandF, 40), 10, 4 * S) == [False] * 3 + [True] * 5
    )  # the oldest 10 are undone from the fourth period on


def test_mandf_looking_further_turns_earlier() -> None:
    assert fed(full(partial(MandF, ahead=3.0), 40), 10, 2 * S) == [False, True, True, True]


def test_mandf_suffers_less_than_beta() -> None:
    hull = window_hull((1.0, 1000.0))
    for beta, in_order in ((0.5, False), (0.0009, True)):
        policy = MandF(hull, (100,), beta=beta)
        policy.arrived(0, 100, 1)  # only the second query, of hardly any weight, is undone
        policy.measure(0.0)
        assert fed(policy, 10, 0.5 * S) == [in_order]


def test_admandf_sets_beta_by_order_and_rate() -> None:
    policy = full(AdMandF, 99)
    assert isinstance(policy, AdMandF)
    policy.decide(load=0.0, rate=10.0)  # no load: MQT, at a rate that is as high as any
    assert (policy.in_order, policy.beta) == (False, 0.02)
    policy.decide(0.0, 1.0)
    assert (policy.in_order, policy.beta) == (False, 0.03)
    policy.decide(0.3, 10.0)  # load: FIFO, which begins at 10
    assert (policy.in_order, policy.beta) == (True, 0.3)
    policy.decide(0.3, 10.0)
    assert (policy.in_order, policy.beta) == (True, 0.3)
    policy.decide(0.1, 10.0)  # less than it was: MQT begins at 10, too
    assert (policy.in_order, policy.beta) == (False, 0.1)
    policy.decide(0.1, 10.0)
    assert policy.in_order
    policy._began = {True: 10.0, False: 1.0}
    policy.beta = 0.0
    policy.decide(0.0, 10.0)  # no load in FIFO at a high rate: stay
    assert (policy.in_order, policy.beta) == (True, 0.0)
    policy.decide(0.0, 1.0)  # the rate falls: MQT next time
    assert (policy.in_order, policy.beta) == (True, 0.01)
    policy.decide(0.0, 1.0)
    assert (policy.in_order, policy.beta) == (False, 0.03)
    policy.decide(7.0, 1.0)
    assert policy.beta == 1.0


def test_a_period_without_arrivals_decides_nothing() -> None:
    policy = full(MandF, 0)
    policy.measure(10 * S)
    assert policy.in_order
    assert policy.switches == 0


def overloaded(policy: SlicePolicy, hull: WindowHull, rate: float, until_s: float, buffer: int = 200) -> list[int]:
    """Feeds one stream at a rate, with time for one fully processed tuple per second. Returns the drops per query."""
    dropped, now_s, came = [0] * hull.queries, 0.0, 0
    while now_s < until_s:
        while came <= now_s * rate:
            if came >= buffer:
                dropped = [a + b for a, b in zip(dropped, policy.evicted(0, 1), strict=True)]
            policy.arrived(0, 1)
            came += 1
        (unit,) = policy.next(now_s * S)
        elapsed_s = unit.work / hull.windows[-1]
        policy.completed(unit.work, elapsed_s * S)
        now_s += elapsed_s
    return dropped


def test_salvage_gives_up_the_dear_queries_of_an_overload() -> None:
    """The load is twice the capacity.

    The first group costs a tenth and is kept completely; the second gets the rest of the processor.
    """
    hull = window_hull((8.0, 10.0, 98.0, 100.0))
    dropped = overloaded(Salvage(hull, (200,)), hull, 2.0, 1500.0)
    leave = 2.0 * 1500.0 - 200
    assert dropped[0] + dropped[1] < 0.005 * leave
    assert 1 - dropped[3] / leave == pytest.approx((1500.0 - 0.1 * leave) / (0.9 * leave), abs=0.02)
    fifo = overloaded(Fifo(hull, (200,)), hull, 2.0, 1500.0)
    assert sum(dropped) < 0.85 * sum(fifo)


def test_salvage_without_buffers_is_mqt() -> None:
    policies: Sequence[SlicePolicy] = (Salvage(TWO_GROUPS, (None, None)), Mqt(TWO_GROUPS, (None, None)))
    orders = []
    for policy in policies:
        rng, found = random.Random(4), []
        for step in range(300):
            if rng.random() < 0.5:
                policy.arrived(rng.randrange(2), 1)
            found += runs(policy, 1, step * 3e5)
        orders.append(found)
    settled = [run for run in orders[0] if run[1] > 10]
    assert settled == [run for run in orders[1] if run[1] > 10]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(SlicePolicyError, match="salvage"):
        make_slice_policy("lifo", TWO_GROUPS, (None,))


@pytest.mark.parametrize(
    ("costs_us", "order"),
    [((100.0, 100.0, 1800.0, 4000.0), "mqt"), ((1500.0,) * 4, "fifo")],
    ids=["by window", "equal"],
)
def test_in_overload_the_order_that_answers_more_queries_is_used(costs_us: tuple[float, ...], order: str) -> None:
    """Where tuples are dropped anyway, FIFO saves nothing: it answers fewer queries if wide windows cost more."""
    policy = AdMandF(window_hull((1.0, 2.0, 20.0, 60.0)), (50, 50))
    now, dropped = 0.0, 0
    for step in range(400):  # 500 tuples per second: three times what can be done
        for stream in (0, 1):
            policy.arrived(stream, 5, at_us=now)
            lane = policy.backlog.lanes[stream]
            dropped += sum(policy.evicted(stream, max(0, lane.end - lane.first - 50)))
        policy.next(now, 18_000.0, costs_us)
        for stream in (0, 1):
            policy.evicted(stream, policy.backlog.done(stream))
        now = 20_000.0 * (step + 1)
    assert dropped > 1000
    assert policy.report()["order"] == order

"""Runs every policy under random events: each tuple is admitted or dropped exactly once, and only FIRM tuples are dropped."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from kigen.schedule import POLICY_NAMES, Completion, Policy, PolicyError, PolicySettings, ScheduledTask, make_policy

SOAK = "KIGEN_SOAK" in os.environ
SOME = (
    ScheduledTask("urgent", 1e6, True, 100.0),
    ScheduledTask("soft", 2e6, False, 50.0),
    ScheduledTask("whenever", None, False, 200.0),
    ScheduledTask("slow", 5e6, True, 3000.0),
)


def drive(policy: Policy, seed: int, work: float, short: int = 30) -> tuple[list[int], list[int], list[int]]:
    """Sends random arrivals for a while, then runs until nothing waits. Returns (arrived, admitted, dropped) per task.

    `work` is the approximate load, `short` the number of turns with arrivals for `taat` outside the soak.
    """
    arriving = (
        30 if policy.name == "taat" and not SOAK else 150
    )  # taat decides per tuple: the full length takes minutes
    rng = random.Random(seed)
    size = len(policy.tasks)
    arrived, admitted, dropped, now = [0] * size, [0] * size, [0] * size, 0.0
    for turn in range(100_000):
        if turn < arriving:
            for task in range(size):
                count = rng.choice((0, 0, 1, 3, int(100 * work)))
                if count:
                    policy.arrived(task, count, now)
                    arrived[task] += count
        decision = policy.next(now)
        for task, count in decision.drop:
            dropped[task] += count
        elapsed = 20_000.0
        for task, count in decision.admit:
            assert count > 0
            admitted[task] += count
            elapsed += count * policy.tasks[task].cost_us
        for task in range(size):
            assert policy.pending(task) == arrived[task] - admitted[task] - dropped[task]
        if decision.idle:
            if turn >= arriving:
                break
            now += 10_000.0
        else:
            now += elapsed
            policy.completed(Completion(now, elapsed, decision.admit, 0))
    return arrived, admitted, dropped


@pytest.mark.parametrize("work", [0.2, 3.0])
@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_tuple_has_one_fate(name: str, work: float) -> None:
    for seed in range(3):
        arrived, admitted, dropped = drive(make_policy(name, SOME, PolicySettings(fixed_us=20_000.0)), seed, work)
        assert [a + s for a, s in zip(admitted, dropped, strict=True)] == arrived
        assert dropped[1] == dropped[2] == 0, "only FIRM loses anything"


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_draining_never_drops(name: str) -> None:
    arrived, admitted, dropped = drive(
        make_policy(name, SOME, PolicySettings(fixed_us=20_000.0, may_drop=False)), 1, 3.0
    )
    assert admitted == arrived
    assert not any(dropped)


@pytest.mark.parametrize("name", ["taat", "bts", "bts1", "ats", "ats1", "edf", "pack"])
def test_overload_drops_only_where_late_is_worthless(name: str) -> None:
    _, _, dropped = drive(make_policy(name, SOME, PolicySettings(fixed_us=20_000.0)), 0, 30.0, short=8)
    assert dropped[0] or dropped[3]


def test_arrays_mean_the_same_as_single_arrivals() -> None:
    for name in POLICY_NAMES:
        one, many = make_policy(name, SOME), make_policy(name, SOME)
        tasks, counts, times = np.array([0, 1, 0, 3]), np.array([5, 2, 1, 7]), np.array([1e5, 1.2e5, 3e5, 3e5])
        for event in zip(tasks.tolist(), counts.tolist(), times.tolist(), strict=True):
            one.arrived(*event)
        many.arrived_many(tasks, counts, times)
        for _ in range(5):
            assert one.next(4e5) == many.next(4e5)


def test_without_deadlines_pack_takes_all_that_fits() -> None:
    policy = make_policy("pack", [ScheduledTask("a"), ScheduledTask("b")])
    policy.arrived(0, 100_000, 0.0)
    policy.arrived(1, 5, 9e9)
    assert policy.next(9e9).admit == [(0, 100_000), (1, 5)]


def test_without_deadlines_pack_takes_a_backlog_in_the_order_of_arrival_in_batches_of_seconds() -> None:
    """The results of a batch are seen at its end, and a batch that is killed begins again."""
    tasks = [ScheduledTask("a", cost_us=1000.0), ScheduledTask("b", cost_us=1000.0)]
    policy = make_policy("pack", tasks, PolicySettings(fixed_us=2000.0))
    for at in range(5000):
        policy.arrived(0, 1, at * 20_000.0)
        policy.arrived(1, 2, at * 20_000.0)
    taken, now, batches = [0, 0], 100e6, 0
    while not (decision := policy.next(now)).idle:
        assert sum(count for _, count in decision.admit) * 1000 < 2.1e6
        for task, count in decision.admit:
            taken[task] += count
        assert abs(taken[0] - taken[1] / 2) <= 10, "none is behind the other"
        now, batches = now + 2e6, batches + 1
        elapsed = 2000.0 + 1000.0 * sum(count for _, count in decision.admit)
        policy.completed(Completion(now, elapsed, decision.admit, 0))
    assert taken == [5000, 10_000]
    assert batches < 12


def test_pack_keeps_two_batches_within_the_shortest_deadline() -> None:
    policy = make_policy(
        "pack",
        [ScheduledTask("a", 1e6, False, 100.0), ScheduledTask("b", 30e6, False, 100.0)],
        PolicySettings(fixed_us=150_000.0),
    )
    policy.arrived(1, 1_000_000, 0.0)
    policy.arrived(0, 10, 0.0)
    decision = policy.next(0.0)
    assert 0.3e6 < decision.predicted_us <= 0.5e6
    assert (0, 10) in decision.admit, "what is urgent is in it"


@pytest.mark.parametrize(
    ("name", "settings"),
    [("best", PolicySettings()), ("pack", PolicySettings(overload="random")), ("ats", PolicySettings(reading="x"))],
)
def test_wrong_settings_say_what_to_write(name: str, settings: PolicySettings) -> None:
    with pytest.raises(ValueError, match="write one of"):
        make_policy(name, SOME, settings)
    with pytest.raises(PolicyError, match="phi"):
        make_policy("bts", SOME, PolicySettings(phi_us=0))


@pytest.mark.parametrize("name", ["bts", "bts1", "ats", "ats1", "edf", "pack"])
def test_firm_tuples_are_dropped_when_they_are_worthless_and_not_at_a_sub_deadline(name: str) -> None:
    """On a node in the middle of a way, a tuple that is late there may still be in time at the end."""
    tasks = [ScheduledTask("a", 1e6, True, 10.0, drop_us=3e6)]
    for now, dropped in ((2e6, 0), (3.5e6, 5)):
        policy = make_policy(name, tasks, PolicySettings(fixed_us=2000.0))
        policy.arrived(0, 5, 0.0)
        decision = policy.next(now)
        assert sum(count for _, count in decision.drop) == dropped, now
        assert bool(decision.admit) == (dropped == 0), now

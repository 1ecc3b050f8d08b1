"""A policy allows a pause between two epochs if no waiting tuple is late because of it."""

from __future__ import annotations

import pytest

from kigen.schedule import POLICY_NAMES, PolicySettings, ScheduledTask, make_policy

TASKS = [ScheduledTask("urgent", 1e6, True, 100.0), ScheduledTask("soft", 5e6, False, 100.0), ScheduledTask("any")]
ROUND = PolicySettings(fixed_us=2_000.0, phi_us=10_000.0, task_us=500.0)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_nothing_urgent_waits(name: str) -> None:
    policy = make_policy(name, TASKS, ROUND)
    assert policy.can_pause(0.0, 200_000.0), "nothing waits"
    policy.arrived(2, 1_000, 0.0)
    if name in ("pack", "edf", "taat", "bts", "bts1", "ats", "ats1"):
        assert policy.can_pause(0.0, 200_000.0), "nothing with a deadline waits"
    policy = make_policy(name, TASKS, ROUND)
    policy.arrived(0, 10, 0.0)
    policy.arrived(1, 10, 0.0)
    assert policy.can_pause(1_000.0, 200_000.0), "there is time enough"
    assert not policy.can_pause(900_000.0, 200_000.0), "the urgent ones would be late"
    assert policy.can_pause(900_000.0, 20_000.0)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_what_is_late_anyway_does_not_count(name: str) -> None:
    policy = make_policy(name, TASKS, ROUND)
    policy.arrived(0, 10, 0.0)
    assert policy.can_pause(2e6, 200_000.0)
    policy.arrived(1, 10, 1e6)
    assert policy.can_pause(3e6, 200_000.0)
    assert not policy.can_pause(5.9e6, 200_000.0)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_the_work_that_waits_takes_time_too(name: str) -> None:
    policy = make_policy(name, TASKS, ROUND)
    policy.arrived(0, 7_500, 0.0)  # 750 ms of work
    assert policy.can_pause(10_000.0, 50_000.0) or name == "taat", "taat pays the fixed cost for each tuple"
    assert not policy.can_pause(10_000.0, 300_000.0)

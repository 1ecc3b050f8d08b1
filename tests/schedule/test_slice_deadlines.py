"""Deadlines of queries over a shared join, in virtual time: what is due soon goes before the order of the policy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from kigen.plan.shared_joins.window_hull import window_hull
from kigen.schedule import PolicySettings, ScheduledTask
from kigen.schedule.slices import ADMITTED_NAMES, Mqt, SliceAdmission, SlicedTask, Unit

HULL = window_hull((1.0, 2.0, 20.0, 60.0))  # order 1-2,3,4
COSTS_US = (100.0, 100.0, 500.0, 1000.0)
FIXED_US = 2_000.0
MS = 1_000.0


def admission_of(name: str, deadlines_us: tuple[float | None, ...], buffers: int | None = None) -> SliceAdmission:
    queues = tuple(
        ScheduledTask(f"q{i}", deadline, cost_us=cost)
        for i, (deadline, cost) in enumerate(zip(deadlines_us, COSTS_US, strict=True))
    )
    settings = PolicySettings(fixed_us=FIXED_US, learning=False)
    return SliceAdmission(name, [SlicedTask(queues, (buffers, buffers), HULL)], settings)


@dataclass
class Outcome:
    """How long each slice's queries waited for each tuple, and all units."""

    waited_us: list[list[float]] = field(default_factory=lambda: [[] for _ in COSTS_US])
    units: list[list[Unit]] = field(default_factory=list)

    def late(self, query: int, deadline_us: float) -> float:
        return float(np.mean(np.array(self.waited_us[query]) > deadline_us))


def play(admission: SliceAdmission, load: float, seconds: float, seed: int = 0, burst: float = 1.0) -> Outcome:
    """Runs Poisson arrivals at a load, `burst` times as many in every fifth second, until nothing waits."""
    rng = np.random.default_rng(seed)
    rate = load / sum(COSTS_US) / (0.8 + 0.2 * burst)  # tuples per microsecond, both streams
    gaps = rng.exponential(1 / (rate * burst), int(seconds * 1e6 * rate * burst * 1.3))
    at = np.cumsum(gaps)
    at = at[(at < seconds * 1e6) & ((at // 1e6 % 5 == 4) | (rng.random(len(at)) < 1 / burst))]
    arrivals: list[list[float]] = [[], []]
    now, fed, outcome = 0.0, 0, Outcome()
    while True:
        while fed < len(at) and at[fed] <= now:
            stream = fed % 2
            arrivals[stream].append(float(at[fed]))
            admission.arrived(0, stream, 1, at_us=float(at[fed]))
            fed += 1
        units = admission.next(now).get(0, [])
        if not units:
            if fed == len(at):
                return outcome
            now = float(at[fed])
            continue
        outcome.units.append(units)
        now += FIXED_US + sum(unit.count * sum(COSTS_US[unit.low : unit.high]) for unit in units)
        admission.completed(FIXED_US)
        for unit in units:
            for number in range(unit.first, unit.first + unit.count):
                for query in range(unit.low, unit.high):
                    outcome.waited_us[query].append(now - arrivals[unit.stream][number])


@pytest.mark.parametrize("name", ADMITTED_NAMES)
def test_a_wide_window_with_a_deadline_is_served_in_time(name: str) -> None:
    """In bursts beyond the capacity, the widest window is left for last. With a deadline it is not late."""
    deadline_us = 400 * MS
    without = play(admission_of(name, (None,) * 4), 0.7, 20, burst=2.0)
    assert without.late(3, deadline_us) > 0.01
    served = play(admission_of(name, (None, None, None, deadline_us)), 0.7, 20, burst=2.0)
    assert served.late(3, deadline_us) < 0.002
    assert all(len(mine) == len(served.waited_us[0]) for mine in served.waited_us), "nothing is lost"


def test_a_narrow_window_with_a_deadline_holds_it_against_a_wide_one_in_progress() -> None:
    """Overload: the narrow window keeps its deadline, since wide slices wait."""
    outcome = play(admission_of("mandf", (200 * MS, None, None, None)), 1.2, 10)
    assert outcome.late(0, 200 * MS) < 0.01


def test_what_is_late_for_certain_does_not_hold_up_the_rest() -> None:
    """A deadline that cannot be kept does not take the place of the slope order: narrow windows are answered as soon."""
    hopeless = play(admission_of("mqt", (None, None, None, 50 * MS)), 1.5, 10)
    plain = play(admission_of("mqt", (None,) * 4), 1.5, 10)
    assert np.median(hopeless.waited_us[0]) < 3 * np.median(plain.waited_us[0])


@pytest.mark.parametrize("name", ["mqt", "mandf", "admandf"])
@pytest.mark.parametrize("seed", range(3))
def test_no_slice_overtakes(name: str, seed: int) -> None:
    """Whatever is due, each slice comes to the tuples of a stream in their order, and to each once."""
    outcome = play(admission_of(name, (None, 300 * MS, None, 700 * MS)), 1.1, 10, seed, burst=2.0)
    at = [[0, 0] for _ in COSTS_US]
    for units in outcome.units:
        for unit in units:
            for level in range(unit.low, unit.high):
                assert unit.first == at[level][unit.stream]
                at[level][unit.stream] += unit.count
                assert level == 0 or at[level][unit.stream] <= at[level - 1][unit.stream]


def test_far_deadlines_change_nothing() -> None:
    far, none = (play(admission_of("mqt", d), 1.0, 5) for d in ((None,) * 3 + (1e9,), (None,) * 4))
    assert far.units == none.units


def test_what_is_due_first_goes_first() -> None:
    policy = Mqt(HULL, (None, None))
    policy.set_deadlines((None, 30 * MS, None, 20 * MS))
    for number in range(3):
        policy.arrived(0, 1, at_us=number * 5 * MS)
    units = policy.next(now_us=12 * MS, budget=3_000.0, costs=COSTS_US, horizon_us=7 * MS)
    assert [(u.first, u.low, u.high) for u in units] == [(0, 0, 4), (1, 0, 2), (2, 0, 2), (1, 2, 3)], (
        "query 4 needs tuple 0 by 20 ms, with 6.3 ms to spare; then the order of slopes"
    )


def test_the_time_that_results_take_to_be_recorded_counts() -> None:
    """Tuple 0 has 6.3 ms to spare beyond its slices: with 6 ms of recording it is still in time, with 7 it is late."""
    for recording_us, first in ((6 * MS, (0, 4)), (7 * MS, (0, 2))):
        policy = Mqt(HULL, (None, None))
        policy.set_deadlines((None, None, None, 20 * MS))
        policy.recording_us = recording_us
        for at_us in (0.0, 12 * MS):
            policy.arrived(0, 1, at_us=at_us)
        units = policy.next(now_us=12 * MS, budget=2_000.0, costs=COSTS_US, horizon_us=7 * MS)
        assert (units[0].low, units[0].high) == first

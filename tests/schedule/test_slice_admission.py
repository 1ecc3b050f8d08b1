"""Tests the admission of slices: budgets, shares of tasks, learning, and evictions."""

from __future__ import annotations

import numpy as np
import pytest

from kigen.plan.shared_joins.window_hull import window_hull
from kigen.schedule import PolicyError, PolicySettings, ScheduledTask
from kigen.schedule.slices import ADMITTED_NAMES, SliceAdmission, SlicedTask, Unit

HULL = window_hull((10.0, 12.0, 112.0, 114.0))  # order 1-2,3-4


def sliced(
    name: str, buffers: tuple[int | None, ...] = (None, None), cost_us: float = 100.0, deadline_us: float | None = None
) -> SlicedTask:
    return SlicedTask(
        tuple(ScheduledTask(f"{name} {i}", deadline_us, cost_us=cost_us) for i in range(4)), buffers, HULL
    )


def whole(name: str, cost_us: float = 100.0) -> SlicedTask:
    return SlicedTask((ScheduledTask(name, cost_us=cost_us),), (None,))


def given(units: list[Unit]) -> list[tuple[int, int, int, int]]:
    return [(u.stream, u.count, u.low, u.high) for u in units]


def test_steep_slices_of_all_tuples_go_before_dear_ones() -> None:
    settings = PolicySettings(fixed_us=1000.0, learning=False, length_us=5000.0)
    admission = SliceAdmission("mqt", [sliced("a")], settings)
    for _ in range(10):
        admission.arrived(0, 0, 1)
        admission.arrived(0, 1, 1)
    assert given(admission.next(0.0)[0]) == [(s % 2, 1, 0, 2) for s in range(20)], (
        "40 slices of 100 us: the length, less the fixed cost"
    )
    assert admission.pending(0) == 20, "each waits for slices 3 and 4"
    assert given(admission.next(1.0)[0]) == [(s % 2, 1, 2, 4) for s in range(20)]
    assert admission.pending(0) == 0


def test_tasks_share_a_batch_evenly_and_what_one_leaves_goes_to_the_next() -> None:
    admission = SliceAdmission(
        "mqt",
        [whole("a"), whole("b"), whole("c")],
        PolicySettings(fixed_us=1500.0, learning=False, length_us=7500.0),
    )
    for _ in range(100):
        admission.arrived(1, 0, 1)
        admission.arrived(2, 0, 1)
    for _ in range(4):
        admission.arrived(0, 0, 1)
    units = admission.next(0.0)
    assert [sum(u.count for u in units[task]) for task in range(3)] == [4, 28, 28], "60 in all; the first has four"


@pytest.mark.parametrize(
    ("deadline_us", "length_us", "expected"),
    [(None, None, 1e6), (1e6, None, 480_000.0), (None, 700_000.0, 700_000.0), (1e5, None, 400_000.0)],
)
def test_how_long_a_batch_is_to_take(deadline_us: float | None, length_us: float | None, expected: float) -> None:
    settings = PolicySettings(fixed_us=200_000.0, length_us=length_us)
    assert SliceAdmission("mqt", [sliced("a", deadline_us=deadline_us)], settings).length_us() == pytest.approx(
        expected
    )


def test_what_is_evicted_is_lost_for_the_slices_that_had_not_run() -> None:
    admission = SliceAdmission(
        "mqt", [sliced("a", (5, None))], PolicySettings(fixed_us=1000.0, learning=False, length_us=2000.0)
    )
    for _ in range(6):
        admission.arrived(0, 0, 1)
    admission.next(0.0)  # ten slices: both cheap ones of the oldest five
    assert admission.evicted(0, 0, 1) == [0, 0, 1, 1]
    assert admission.pending(0) == 5


@pytest.mark.parametrize("name", ADMITTED_NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_every_slice_of_every_tuple_is_given_once_or_lost(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    admission = SliceAdmission(name, [sliced("a", (30, None)), whole("b")], PolicySettings(fixed_us=2000.0))
    arrived, ran, lost, now = np.zeros(2), np.zeros((2, 4)), np.zeros(4), 0.0
    for step in range(400):
        now += float(rng.uniform(1e4, 3e5))
        if step < 300:
            for stream in (0, 1):
                count = int(rng.integers(0, 12))
                if count:
                    admission.arrived(0, stream, count)
                    arrived[stream] += count
            admission.arrived(1, 0, 1)
        lane = admission._policies[0].backlog.lanes[0]
        beyond = lane.end - lane.first - 30
        if beyond > 0:
            lost += admission.evicted(0, 0, beyond)
        assert set(admission.given_up(0)) == {0} or name == "salvage"
        units = admission.next(now)
        took = 2000.0 + sum(unit.count * (unit.high - unit.low) * 150.0 for mine in units.values() for unit in mine)
        admission.completed(took)
        for unit in units.get(0, ()):
            ran[unit.stream, unit.low : unit.high] += unit.count
    refused = arrived.sum() - ran.sum(axis=0) - lost
    assert refused.tolist() == admission.given_up(0)
    assert (ran[1] == arrived[1]).all() or name == "salvage"
    assert (np.diff(lost + refused) >= 0).all()
    assert admission.pending(0) == admission.pending(1) == 0
    assert admission.costs.costs_us[:4] == pytest.approx([150.0] * 4, rel=0.5), "learnt from the lengths of batches"


def test_a_policy_that_admits_no_slices_is_refused() -> None:
    with pytest.raises(PolicyError, match="policy 'fifo' does not admit slices: write one of mqt, mandf, admandf, sal"):
        SliceAdmission("fifo", [sliced("a")])


@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_as_long_as_what_they_cost_beside_their_tuples_demands(seed: int) -> None:
    """f = 2 ms, A = 1 ms, 0.5 ms per pass of a slice, and slices of 50 to 1,600 us per tuple: as workers report them."""
    rng = np.random.default_rng(seed)
    admission = SliceAdmission("mqt", [sliced("a")], PolicySettings(fixed_us=200_000.0, period_us=1e5))
    true_us, now = np.array([50.0, 50.0, 400.0, 1600.0]), 0.0
    for _ in range(400):
        for stream in (0, 1):
            admission.arrived(0, stream, int(rng.integers(1, 30)), at_us=now)
        units = admission.next(now).get(0, [])
        passes = {at for unit in units for at in range(unit.low, unit.high)}
        part_us = 1000.0 + 500.0 * len(passes)
        part_us += sum(unit.count * float(true_us[unit.low : unit.high].sum()) for unit in units)
        part_us *= float(rng.uniform(0.9, 1.1))
        admission.completed(part_us + 2000.0, {0: part_us})
        now += part_us + 2000.0
    assert admission.costs.fixed_us == pytest.approx(2000.0, rel=0.1)
    assert admission.costs.costs_us.tolist() == pytest.approx(true_us.tolist(), rel=0.25, abs=60.0)
    assert 50_000 < admission.length_us() < 150_000, "20 times 3 to 5 ms"
    again = SliceAdmission("mqt", [sliced("a")], PolicySettings())
    again.costs.restore(admission.costs.to_json())
    assert again.costs.costs_us.tolist() == admission.costs.costs_us.tolist()
    assert again.length_us() == pytest.approx(admission.length_us())


def test_a_small_buffer_shortens_rounds() -> None:
    admission = SliceAdmission("mqt", [sliced("a", (100, None))], PolicySettings(fixed_us=20_000.0, learning=False))
    for step in range(20):
        admission.arrived(0, 0, 50)
        admission.next(step * 1e5)
    assert admission.length_us() == pytest.approx(100 / 500e-6 / 4, rel=0.1), "100 tuples come in 200 ms"

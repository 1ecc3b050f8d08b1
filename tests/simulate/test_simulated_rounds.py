"""Holds the figures of issue 17 in virtual time: what `pack` misses in rounds, with what a round and a task cost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kigen_lab.simulate.deadlines.classes import BATCH_CLASSES_S, Classes, draw_classes
from kigen_lab.simulate.deadlines.rounds import RoundCosts, RoundsOutcome, deal, simulate_rounds

from kigen.schedule import Policy, PolicySettings, ScheduledTask, make_policy


def run(
    name: str, setting: Classes, costs: RoundCosts | None = None, guess_us: float = 2_000.0, seed: int = 0
) -> RoundsOutcome:
    def make(tasks: Sequence[ScheduledTask]) -> Policy:
        return make_policy(name, tasks, PolicySettings(fixed_us=guess_us))

    return simulate_rounds(draw_classes(setting), make, costs or RoundCosts(), setting.lanes, seed)


def test_safe_load_in_rounds() -> None:
    pack = run("pack", Classes(load=0.85, seconds=45.0))
    assert pack.sdmr <= 0.015
    assert pack.sdmr_of(0.1) <= 0.015
    assert pack.epochs == 2, "there was a gap"


def test_tasks_that_cost_a_millisecond_and_a_half() -> None:
    pack = run("pack", Classes(load=0.85, seconds=45.0), RoundCosts(task_us=1_500.0))
    assert pack.sdmr <= 0.05
    assert pack.sdmr_of(0.1) <= 0.015


def test_overload_in_rounds() -> None:
    pack = run("pack", Classes(load=1.3, seconds=60.0))
    assert pack.sdmr_of(0.1) <= 0.02
    assert pack.sdmr <= 0.30
    assert pack.in_time >= 0.9
    assert pack.sdmr_of(5.0) > 0.3, "a class of five seconds is shed, too"


@pytest.mark.parametrize("load", [0.2, 0.5, 0.7])
def test_pack_is_never_worse_than_taking_all(load: float) -> None:
    setting = Classes(load=load, seconds=20.0)
    assert run("pack", setting).sdmr <= run("all", setting).sdmr + 0.002


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("fixed_us", [270_000.0, 370_000.0])
def test_micro_batches_at_a_low_load(fixed_us: float, measured: bool) -> None:
    """The defect of load 0.22: costs were learnt wrongly, and a tuple with 30 s left was let go."""
    setting = Classes(load=0.22, lanes=1, tuple_us=91.0, classes_s=BATCH_CLASSES_S)
    costs = RoundCosts(fixed_us=fixed_us, task_us=0.0, epoch_us=None, measured=measured)
    pack, everything = (run(name, setting, costs, guess_us=200_000.0) for name in ("pack", "all"))
    assert pack.sdmr <= everything.sdmr + 0.002
    assert pack.sdmr_of(30.0) == 0.0


def test_a_gap_spares_deadlines_above_half_a_second() -> None:
    with_gap = run("pack", Classes(load=0.5, seconds=20.0), RoundCosts(epoch_us=4e6))
    without = run("pack", Classes(load=0.5, seconds=20.0), RoundCosts(epoch_us=None))
    assert with_gap.epochs >= 4
    for deadline_s in (0.5, 1.0, 5.0):
        assert with_gap.sdmr_of(deadline_s) <= without.sdmr_of(deadline_s) + 0.001


def test_tasks_are_dealt_so_that_every_class_is_in_every_lane() -> None:
    workload = draw_classes(Classes(seconds=5.0))
    lanes = deal(workload, 2)
    assert sorted(task for tasks in lanes for task in tasks) == list(range(20))
    for tasks in lanes:
        assert {workload.tasks[task].deadline_us for task in tasks} == {1e5, 2.5e5, 5e5, 1e6, 5e6}

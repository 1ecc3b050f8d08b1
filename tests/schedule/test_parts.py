"""Tests the parts of the paper's scheduler one by one."""

from __future__ import annotations

import pytest

from kigen.schedule import PolicySettings, ScheduledTask, make_policy
from kigen.schedule.adaptive.adaptivity_controller import AdaptivityController
from kigen.schedule.adaptive.basic_batch_manager import BasicBatch, BasicBatchManager
from kigen.schedule.adaptive.basic_task_collector import BasicTaskCollector
from kigen.schedule.adaptive.exec_cost import chain_cost_us, survivors
from kigen.schedule.adaptive.overdue_controller import OverdueController
from kigen.schedule.adaptive.priority_manager import PriorityManager
from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor
from kigen.schedule.cost_model import CostModel

TASKS = (ScheduledTask("a", 1e6, True, 1000.0), ScheduledTask("b", 2e6, False, 1000.0))


def test_collector_copies_a_stream_for_each_of_its_readers() -> None:
    collector = BasicTaskCollector(TASKS, {"s": [0, 1]})
    assert [(t.task, t.deadline_us) for t in collector.collect("s", 3, 5e5)] == [(0, 1.5e6), (1, 2.5e6)]


def test_tuples_of_one_slot_form_a_basic_batch_stamped_by_its_oldest() -> None:
    batches = BasicBatchManager(1, 100_000.0)
    assert batches.add(0, 2, 10_000.0, 1_010_000.0)
    assert not batches.add(0, 1, 99_999.0, 1_099_999.0)
    batches.add(0, 4, 100_000.0, 1_100_000.0)
    assert batches.pending(0) == 7
    assert batches.take(0, 1) == [BasicBatch(0.0, 3, 1_010_000.0)]
    assert batches.head_deadline_us(0) == 1_100_000.0
    assert batches.take(0, 5) == [BasicBatch(1.0, 4, 1_100_000.0)]
    assert batches.head_deadline_us(0) is None


def test_task_at_a_time_has_batches_of_one() -> None:
    batches = BasicBatchManager(1, 0.0)
    batches.add(0, 3, 7.0, 8.0)
    assert [b.tuples for b in batches.take(0, 2)] == [1, 1]


def test_priority_is_the_earliest_head() -> None:
    priorities = PriorityManager(TASKS)
    priorities.enter(0, 3.0)
    priorities.enter(1, 2.0)
    assert [priorities.most_urgent(), priorities.most_urgent(), priorities.most_urgent()] == [1, 0, None]


def test_maximum_urgency_first_puts_firm_before_soft() -> None:
    priorities = PriorityManager(TASKS, "muf")
    priorities.enter(1, 2.0)
    priorities.enter(0, 3.0)
    assert priorities.most_urgent() == 0


def test_overdue_lets_go_of_the_expired_if_firm() -> None:
    batches = [BasicBatch(0.0, 2, 100.0), BasicBatch(1.0, 3, 200.0)]
    assert OverdueController(TASKS).split(0, batches, 150.0) == (2, 3)
    assert OverdueController(TASKS).split(1, batches, 150.0) == (0, 5)


def test_s_of_q_drops_the_oldest_that_cannot_be_finished() -> None:
    overdue = OverdueController(TASKS, CostModel(TASKS, 500.0, learning=False))
    # 4 tuples take 4,500 us: the first batch, due in 3,000, cannot wait for the others; without it 2 are left, which
    # take 2,500.
    batches = [BasicBatch(0.0, 2, 3_000.0), BasicBatch(1.0, 2, 10_000.0)]
    assert overdue.split(0, batches, 0.0) == (2, 2)
    assert overdue.split(0, batches[:1], 0.0) == (0, 2)
    assert overdue.split(0, [BasicBatch(0.0, 5, 3_600.0)], 0.0) == (2, 3)


def test_cost_of_a_chain_and_what_survives() -> None:
    assert chain_cost_us([10.0, 20.0, 40.0], [0.5, 0.1, 0.9]) == pytest.approx(10 + 0.5 * 20 + 0.05 * 40)
    assert survivors(100.0, 50.0, 1_000.0, 0.0) == 9
    assert survivors(100.0, 50.0, 1_000.0, 990.0) == 0


def test_sdmr_in_three_readings() -> None:
    monitor = SdmrMonitor(window_us=100.0)
    monitor.arrived(10)
    monitor.executed(0.0, 4, 2)
    monitor.executed(90.0, 4, 1)
    assert (monitor.total, monitor.last, monitor.window) == (0.3, 0.25, 3 / 8)
    monitor.executed(150.0, 2, 0)
    assert (monitor.last, monitor.window) == (0.0, 1 / 6)


@pytest.mark.parametrize(
    ("reading", "expected"), [("totals", 1), ("execution", 2), ("window", 1), ("mixed", 1), ("overdue", 1)]
)
def test_k_after_one_miss_and_many_hits(reading: str, expected: int) -> None:
    """Kp = 1, Ki = 10.

    Only the difference between executions notices a single miss, and only the totals forgive it: 1 of 1,000, so k -
    floor(-1 + 10 * 0.001) = k + 1.
    """
    monitor = SdmrMonitor()
    monitor.arrived(1_000)
    controller = AdaptivityController(monitor, reading=reading)
    monitor.executed(0.0, 1, 1)
    controller.update()
    monitor.executed(1.0, 1, 0)
    controller.update()
    assert controller.k == expected


def test_tasks_that_expire_while_they_wait_do_not_lower_k() -> None:
    """2 of 4 dropped, then 1 of 4: k + 1. Late results, which are useless work, do lower k."""
    monitor = SdmrMonitor()
    monitor.arrived(12)
    controller = AdaptivityController(monitor, reading="overdue", start=3)
    monitor.executed(0.0, 4, 2, dropped=2)
    assert controller.update() == 3
    monitor.executed(1.0, 4, 1, dropped=1)
    assert controller.update() == 4
    monitor.executed(2.0, 4, 4)
    assert controller.update() == 1


def test_k_falls_when_much_is_missed_and_never_below_one() -> None:
    monitor = SdmrMonitor()
    monitor.arrived(10)
    controller = AdaptivityController(monitor, reading="execution", start=8)
    monitor.executed(0.0, 5, 5)
    assert controller.update() == 8 - 6  # floor(1 * 1 + 10 * 0.5)
    assert controller.update() == 1


def test_a_long_batch_is_cut_before_it_makes_the_next_query_late() -> None:
    tasks = (ScheduledTask("a", 1e6, True, 10_000.0), ScheduledTask("b", 1e6, True, 10_000.0))
    policy = make_policy("ats1", tasks, PolicySettings(fixed_us=1_000.0, k=9, learning=False))
    for slot in range(9):
        policy.arrived(0, 1, slot * 100_000.0)
    policy.arrived(1, 1, 10_000.0)
    # At 0.97 s the other head has 40 ms left: 3 tuples of 10 ms and two overheads fit, not 9. The oldest of them, with
    # 30 ms, is dropped.
    assert policy.next(970_000.0).admit == [(0, 2)]
    assert policy.pending(0) == 6

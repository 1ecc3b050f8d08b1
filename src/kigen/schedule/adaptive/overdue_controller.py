"""Overdue Controller: drops tuples that are late already, and, with cost statistics, those that will be (BTS1 and
ATS1).

Only FIRM tasks lose tuples, and always their oldest. Cost: one step per basic batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from kigen.schedule.adaptive.basic_batch_manager import BasicBatch
from kigen.schedule.adaptive.exec_cost import survivors
from kigen.schedule.cost_model import CostModel
from kigen.schedule.policy_interface import ScheduledTask


class OverdueController:
    """Drops overdue tuples of FIRM tasks."""

    def __init__(self, tasks: Sequence[ScheduledTask], costs: CostModel | None = None) -> None:
        """With `costs`, S(Q) is applied, too."""
        self._firm = [task.firm and task.deadline_us is not None for task in tasks]
        self._spare_us = [task.spare_us for task in tasks]
        self._costs = costs

    def split(self, task: int, batches: list[BasicBatch], now_us: float) -> tuple[int, int]:
        """Returns how many of the oldest tuples of these batches are dropped, and how many stay."""
        total = 0
        for batch in batches:
            total += batch.tuples
        if not self._firm[task]:
            return 0, total
        expired = 0
        first = 0
        for batch in batches:
            if batch.deadline_us + self._spare_us[task] >= now_us:
                break
            expired += batch.tuples
            first += 1
        if self._costs is None or first == len(batches):
            return expired, total - expired
        kept = self._hopeful(task, batches[first:], now_us)
        return total - kept, kept

    def _hopeful(self, task: int, batches: list[BasicBatch], now_us: float) -> int:
        """Returns S(Q): of the batches that are not late yet, the tuples that can be finished by the deadline of the
        oldest kept.

        The results of a scheduling batch come together, so its oldest batch must allow for all of it. While that batch
        cannot wait for the rest, it is dropped.
        """
        assert self._costs is not None
        cost_us, fixed_us = self._costs.costs_us[task], self._costs.fixed_us
        kept = 0
        for batch in batches:
            kept += batch.tuples
        for index, batch in enumerate(batches):
            possible = survivors(cost_us, fixed_us, batch.deadline_us + self._spare_us[task], now_us)
            if kept <= possible:
                break
            if index == len(batches) - 1:
                return min(kept, possible)
            kept -= batch.tuples
        return kept

"""The simple policies over whole batches: `all`, `fifo` and `edf`. Like `pack` they share the fixed cost over many
queries.

- `all` admits everything that waits, as plain Spark does.
- `fifo` admits the oldest arrivals first, in batches of at most the same predicted length as those of `pack`.
- `edf` admits the earliest deadlines first, as long as the earliest of them still holds. In overload its batches
  shrink, and the fixed cost takes all the time.
"""

from __future__ import annotations

from kigen.schedule.packing.queue_policy import QueuePolicy
from kigen.schedule.policy_interface import Decision


class AdmitAll(QueuePolicy):
    """Admits everything."""

    together = True

    def next(self, now_us: float) -> Decision:
        return self._decide(self.queues.take_all())


class FifoPacking(QueuePolicy):
    """Admits the oldest arrivals first."""

    together = True  # a tuple may have to wait for everything that arrived before it

    def next(self, now_us: float) -> Decision:
        fixed_us = self.costs.fixed_us
        budget_us = max(self.shortest_us / 2 - fixed_us, fixed_us)
        return self._decide(self._take_in_order(self.queues.head_arrival_us, budget_us))


class EdfPacking(QueuePolicy):
    """Admits the earliest deadlines first."""

    def next(self, now_us: float) -> Decision:
        queues, dropped = self.queues, dict[int, int]()
        self._drop_before(self._worthless_before(now_us), now_us, dropped)
        budget_us = max(float(queues.heads_us.min()) - now_us - self.costs.fixed_us, 0.0)
        return self._decide(self._take_in_order(lambda task: float(queues.heads_us[task]), budget_us), dropped)

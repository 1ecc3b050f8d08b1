"""Work that falls due: how much must be done by each of some moments, per task.

Of what waits, the tuples of a task are taken as spread evenly between the due times of its oldest and its newest. Of
what is to come, tuples that arrive at the given rate fall due after their task's deadline. A task costs its own part
each time it is taken, which is assumed twice per deadline. All deadlines hold in the order of deadlines if, at each
moment, the sum of this work fits into the time until then.

Cost: some vector operations over (moments x tasks) numbers.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.task_queues import TaskQueues
from kigen.schedule.policy_interface import Floats

MOMENTS = 32  # at most; fewer with many tasks
_NUMBERS = 6_000  # moments x tasks
_VISIT = 0.5  # in deadlines: how often a task is taken


def moments_us(queues: TaskQueues, now_us: float, after_us: float) -> Floats:
    """Returns moments at which to compare work and time: when waiting tuples and tuples that arrive now fall due."""
    waiting = queues.pending > 0
    found = np.concatenate((queues.heads_us[waiting], queues.tails_us[waiting], now_us + queues.deadlines_us))
    return thinned(found[found > after_us])


def thinned(moments: Floats) -> Floats:
    """Returns the moments in order, without most of them if they are many."""
    found = np.unique(moments)
    most = max(8, min(MOMENTS, 2 * _NUMBERS // max(len(found), 1)))
    return found if len(found) <= most else found[np.linspace(0, len(found) - 1, most).astype(np.int64)]


def due_work(
    queues: TaskQueues, costs: CostModel, now_us: float, moments: Floats, rates: Floats | None = None
) -> Floats:
    """Returns the work due by each moment (rows) of each task (columns). `rates` are tuples per microsecond to come."""
    waiting, deadlines_us = queues.pending > 0, queues.deadlines_us
    heads_us = np.where(waiting, queues.heads_us, now_us + deadlines_us)
    span_us = np.where(waiting, queues.tails_us, heads_us) - heads_us
    slot_us = queues.slots_us
    since_us = moments[:, None] - heads_us
    reached = since_us >= 0
    share = np.minimum((since_us + slot_us) / (span_us + slot_us), 1.0) * reached
    tuples = queues.pending * share
    active = waiting
    if rates is not None:
        tuples = tuples + rates * np.maximum(moments[:, None] - (now_us + deadlines_us), 0.0)
        active = waiting | (rates > 0)
    ahead_us = np.minimum(since_us, moments[:, None] - now_us)
    visits = 1.0 + (np.maximum(ahead_us, 0.0) / (_VISIT * deadlines_us) if rates is not None else 0.0)
    return np.asarray(costs.costs_us * tuples + np.where(reached & active, costs.tasks_us * visits, 0.0))

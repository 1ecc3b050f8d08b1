"""The interface between policies and their drivers: events in, decisions out.

The simulator (virtual time) and Spark's admission (real time) call the same methods of a `Policy`. Times are
microseconds on the driver's clock, with any origin. A policy reads no clock, does no I/O and starts no thread.

Invariant: a task's queue is first in, first out. A decision never names tuples: it says how many of the *oldest*
pending tuples of a task are dropped, and how many after those are admitted. So the order within a query is kept, and
windows stay correct.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Grant = tuple[int, int]  # (index of the task, number of its oldest tuples)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_INSIST_US = 1e6  # for so long, no deadline is too short to forbid a pause
_SPARED = 2.5  # in pauses: deadlines that always count
_ASKING_US = 2e6  # who has not asked for so long, asks anew


@dataclass(frozen=True)
class ScheduledTask:
    """A task as a policy sees it. Its index in the list that the policy was made with identifies it."""

    name: str
    deadline_us: float | None = None  # counted from arrival; None: no deadline
    firm: bool = False  # a late result is worthless, so tuples that cannot make the deadline may be dropped
    cost_us: float = 10.0  # per tuple; a first guess, used before anything was measured
    drop_us: float | None = None  # FIRM: a tuple is worthless only after this time; None: after the deadline

    @property
    def spare_us(self) -> float:
        """Returns how long after its deadline a FIRM tuple is still worth something."""
        return 0.0 if self.deadline_us is None or self.drop_us is None else max(0.0, self.drop_us - self.deadline_us)


@dataclass(slots=True)
class Decision:
    """One batch. Of each task, the oldest `drop` tuples are dropped, then the next `admit` tuples are admitted."""

    admit: list[Grant] = field(default_factory=list)
    drop: list[Grant] = field(default_factory=list)
    predicted_us: float = 0.0  # predicted length, the fixed cost included; 0 if the policy does not predict
    batches: int = 1  # the paper's k, if the policy has one

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run now. Tuples may have been dropped all the same."""
        return not self.admit


@dataclass(slots=True)
class Completion:
    """Reports that the batch of a decision is committed."""

    finished_us: float
    elapsed_us: float
    admitted: Sequence[Grant]
    missed: int = 0  # admitted tuples whose results came after their deadline
    task_elapsed_us: Sequence[float] | None = None  # per grant: what the worker spent on that task; None: not measured
    recording_us: float = 0.0  # how long results take from the end of their batch until they count as delivered


class Policy(ABC):
    """Decides what runs next. `fed_by_arrays`: calling `arrived_many` is faster than calling `arrived`."""

    name: str = ""
    fed_by_arrays: bool = False

    def __init__(self, tasks: Sequence[ScheduledTask]) -> None:
        self.tasks = tuple(tasks)
        self._asked_us: float | None = None  # when a pause was last asked for, and since when in vain
        self._refused_us = 0.0

    @abstractmethod
    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        """Adds `count` tuples of one slot. The arrivals of each task come in order."""

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        """Adds the arrivals of many tasks at once."""
        for task, count, arrival_us in zip(tasks.tolist(), counts.tolist(), arrivals_us.tolist(), strict=True):
            self.arrived(task, count, arrival_us)

    @abstractmethod
    def evict(self, task: int, count: int) -> None:
        """Removes the oldest `count` tuples of the task, because its buffer was full."""

    @abstractmethod
    def next(self, now_us: float) -> Decision:
        """Decides what to run now. The decided tuples leave the queue."""

    @abstractmethod
    def completed(self, done: Completion) -> None:
        """Takes in that a decision's batch is done. Decisions complete in order, before the next one is requested."""

    @abstractmethod
    def pending(self, task: int) -> int:
        """Returns how many tuples of the task wait."""

    def can_pause(self, now_us: float, pause_us: float) -> bool:
        """Returns whether a pause of that length, such as the gap between two epochs, makes no waiting tuple late.

        Tuples that would be late without the pause do not count. Where short deadlines forbid the pause for a second,
        only tuples with a deadline of at least two and a half pauses still count. A driver that needs the pause must
        limit how long it asks: in overload the answer may be no for long.
        """
        asking = self._asked_us is not None and now_us - self._asked_us < _ASKING_US
        self._asked_us = now_us
        if not asking:
            self._refused_us = now_us
        given_up = now_us - self._refused_us > _INSIST_US  # short deadlines are missed by any pause, sooner or later
        due_us, done_us = self.outlook(now_us, _SPARED * pause_us if given_up else 0.0)
        return not bool(((done_us <= due_us) & (due_us < done_us + pause_us)).any())

    def outlook(self, now_us: float, shortest_us: float = 0.0) -> tuple[Floats, Floats]:
        """Returns, for groups of waiting tuples with a deadline, when they are due and when they will be done.

        Groups of tasks with a deadline below `shortest_us` are left out. By default nothing is known but what waits, so
        that any waiting tuple with a deadline forbids a pause.
        """
        deadlines = [shortest_us - 1.0 if task.deadline_us is None else task.deadline_us for task in self.tasks]
        waiting = [t for t, deadline_us in enumerate(deadlines) if deadline_us >= shortest_us and self.pending(t)]
        return np.full(len(waiting), now_us), np.full(len(waiting), now_us)

    def report(self) -> dict[str, Any]:
        """Returns what the policy has learnt, for users to read."""
        return {"policy": self.name}

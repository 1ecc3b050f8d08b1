"""The one interface between policies and whatever drives them: events in, decisions out.

The simulator (virtual time) and Spark's admission (real time) call the same four methods of a `Policy`. Times are
microseconds on the driver's clock, whatever its origin; a policy reads no clock, does no I/O and starts no thread.

Invariant: a task's queue is first in, first out. A decision never names tuples: it says how many of the *oldest*
pending tuples of a task are shed, and how many after those are admitted. So order within a query survives, and windows
stay right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Grant = tuple[int, int]  # (task's index, how many of its oldest tuples)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScheduledTask:
    """A task as a policy knows it. Tasks are known by their index in the list that the policy was made with."""

    name: str
    deadline_us: float | None = None  # after arrival; None: whenever
    firm: bool = False  # a result after the deadline is worthless: what cannot make it may be dropped
    cost_us: float = 10.0  # a tuple, before anything has been measured


@dataclass(slots=True)
class Decision:
    """One micro-batch. Of each task: first its oldest `shed` are let go, then the next `admit` go in."""

    admit: list[Grant] = field(default_factory=list)
    shed: list[Grant] = field(default_factory=list)
    predicted_us: float = 0.0  # how long it should take, the fixed cost included; 0 where the policy does not predict
    batches: int = 1  # the paper's k, where the policy has one

    @property
    def idle(self) -> bool:
        """Nothing to run now. Something may have been shed all the same."""
        return not self.admit


@dataclass(slots=True)
class Completion:
    """A decision's micro-batch is committed."""

    finished_us: float
    elapsed_us: float
    admitted: Sequence[Grant]
    missed: int = 0  # tuples of it whose results came after their deadline


class Policy(ABC):
    """What goes next. `fed_by_arrays`: the driver had better call `arrived_many`."""

    name: str = ""
    fed_by_arrays: bool = False

    def __init__(self, tasks: Sequence[ScheduledTask]) -> None:
        self.tasks = tuple(tasks)

    @abstractmethod
    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        """`count` tuples of one slot; of each task in the order of arrival."""

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        for task, count, arrival_us in zip(tasks.tolist(), counts.tolist(), arrivals_us.tolist(), strict=True):
            self.arrived(task, count, arrival_us)

    @abstractmethod
    def evict(self, task: int, count: int) -> None:
        """The oldest `count` tuples of the task are gone: its buffer was full."""

    @abstractmethod
    def next(self, now_us: float) -> Decision:
        """What to run now. The tuples named leave the queue."""

    @abstractmethod
    def completed(self, done: Completion) -> None:
        """The decision's batch is done. Decisions complete in order, before the next is asked for."""

    @abstractmethod
    def pending(self, task: int) -> int:
        """Tuples of the task that wait."""

    def report(self) -> dict[str, Any]:
        """What the policy has learnt, for users to read."""
        return {"policy": self.name}

"""The sweep: births and deaths of many groups, sorted by group and time and cumulated, give every change between two
steps.

All events of one group at one instant act together (a run): what is visible at an instant is the state after all of
them. The result of a step therefore does not depend on how its events were cut into blocks. Cost: one sort of the
step's events, then vector passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.blocks import Ints, Mask


@dataclass(frozen=True)
class Runs:
    """Events grouped by (slot, time). `order` sorts the events; run i holds order[begin[i]:begin[i+1]]."""

    order: Ints
    begin: Ints  # of each run, in the sorted events
    slot: Ints  # of each run
    time: Ints  # of each run
    first: Mask  # whether the run is its slot's first

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def last(self) -> Mask:
        return np.concatenate([self.first[1:], [True]]) if len(self.first) else self.first

    def sample(self) -> Ints:
        """One event of each run, by its place in the step's events: all events of a group share its key columns."""
        return self.order[self.begin]

    def total(self, per_event: Ints) -> Ints:
        """Sum over the events of each run."""
        ordered = per_event[self.order]
        return ordered if len(self.begin) == len(ordered) else np.asarray(np.add.reduceat(ordered, self.begin))

    def cumulated(self, per_event: Ints, before: Ints) -> Ints:
        """The group's value after each run; `before`, its value when the step began, by slot, is brought up to date.

        One cumulation over all groups: each group's first run also takes away what the group before it ended with."""
        total = self.total(per_event)
        starts = np.flatnonzero(self.first)
        slots = self.slot[starts]
        initial = before[slots]
        final = initial + np.add.reduceat(total, starts)
        if total is per_event:
            total = total.copy()
        total[starts] += initial
        total[starts[1:]] -= final[:-1]
        before[slots] = final
        return np.cumsum(total, out=total)


def group_runs(slot: Ints, time: Ints) -> Runs:
    """KeyTable must be small numbers (below 2**31): slot and place in time are packed into one integer, and that is
    sorted, which is many times faster than sorting by two keys."""
    count = len(slot)
    order = (
        None if bool(np.all(time[1:] >= time[:-1])) else np.argsort(time, kind="stable")
    )  # few sorted runs: merging is cheap
    bits = max(count - 1, 1).bit_length()
    packed = ((slot if order is None else slot[order]) << bits) | np.arange(count)
    packed.sort()
    places = packed & ((1 << bits) - 1)
    slots = packed >> bits
    order = places if order is None else order[places]
    times = time[order]
    new_slot = changes(slots)
    new_run = new_slot | changes(times)
    begin = np.flatnonzero(new_run)
    return Runs(order, begin, slots[begin], times[begin], new_slot[begin])


def changes(values: Ints) -> Mask:
    """Where a value differs from the one before; true at the first."""
    out = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=out[1:])
    return out


def dense(keys: Ints) -> Ints:
    """Equal keys get equal small numbers."""
    order = np.argsort(keys)
    ordinal = np.cumsum(changes(keys[order])) - 1
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = ordinal
    return out

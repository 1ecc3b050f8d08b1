"""The sweep: sorts births and deaths of many groups by group and time and adds them up. The result has every change
between two steps.

All events of one group at one instant act together (a run): what is visible at an instant is the state after all of
them. So the result of a step does not depend on how its events were cut into blocks. Cost: one sort of the step's
events, then vector passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.blocks import Ints, Mask


@dataclass(frozen=True)
class Runs:
    """Events grouped by (slot, time). `order` sorts the events; run i is order[begin[i]:begin[i+1]]."""

    order: Ints
    begin: Ints  # position of each run in the sorted events
    slot: Ints  # of each run
    time: Ints  # of each run
    first: Mask  # whether the run is its slot's first

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def last(self) -> Mask:
        return np.concatenate([self.first[1:], [True]]) if len(self.first) else self.first

    def sample(self) -> Ints:
        """Returns one event of each run, as an index into the step's events. All events of a group have the same key
        columns."""
        return self.order[self.begin]

    def total(self, per_event: Ints) -> Ints:
        """Returns the sum over the events of each run."""
        ordered = per_event[self.order]
        return ordered if len(self.begin) == len(ordered) else np.asarray(np.add.reduceat(ordered, self.begin))

    def cumulated(self, per_event: Ints, before: Ints) -> Ints:
        """Returns the group's value after each run, and updates `before`, the values by slot when the step began.

        One cumulative sum serves all groups: each group's first run also subtracts the final value of the group before
        it."""
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
    """Groups events into runs. Slots must be below 2**31: slot and rank in time are packed into one integer, which
    sorts many times faster than two keys."""
    count = len(slot)
    # Times mostly are a few sorted runs, which a stable sort merges cheaply.
    order = None if bool(np.all(time[1:] >= time[:-1])) else np.argsort(time, kind="stable")
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
    """Returns where a value differs from the one before; true for the first."""
    out = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=out[1:])
    return out


def dense(keys: Ints) -> Ints:
    """Gives equal keys equal small numbers."""
    order = np.argsort(keys)
    ordinal = np.cumsum(changes(keys[order])) - 1
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = ordinal
    return out

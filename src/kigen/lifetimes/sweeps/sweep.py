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

_FEW = 256  # events: any sort is quick
_FEW_SLOTS = 1 << 16  # numpy sorts numbers of 16 bits by counting
_LONG_RUN = 8  # average length of runs for which a merging sort is faster


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
    """Groups events into runs. Slots must be below 2**31."""
    order = _order(slot, time)
    slots, times = slot[order], time[order]
    new_slot = changes(slots)
    new_run = new_slot | changes(times)
    begin = np.flatnonzero(new_run)
    return Runs(order, begin, slots[begin], times[begin], new_slot[begin])


def _order(slot: Ints, time: Ints) -> Ints:
    """Returns the order of events by slot and time; events of one slot and time keep theirs.

    A stable sort merges what is ordered already, and slots often are: those of new keys follow one another. Few
    different slots are sorted by counting. For all others, slot and rank in time are packed into one integer, which
    sorts many times faster than two keys."""
    count = len(slot)
    greatest = int(slot.max()) if count > _FEW else 0
    if greatest >= _FEW_SLOTS:
        first = int(time.min())
        width = (int(time.max()) - first).bit_length()
        if greatest.bit_length() + width < 63:
            key = (slot << width) | (time - first)
            if _few_turns(key):
                return np.argsort(key, kind="stable")
    # Times mostly are a few sorted runs, too.
    by_time = None if bool(np.all(time[1:] >= time[:-1])) else np.argsort(time, kind="stable")
    slots = slot if by_time is None else slot[by_time]
    if count > _FEW and greatest < _FEW_SLOTS:
        places: Ints = np.argsort(slots.astype(np.uint16), kind="stable")
    else:
        bits = max(count - 1, 1).bit_length()
        packed = (slots << bits) | np.arange(count)
        packed.sort()
        places = packed & ((1 << bits) - 1)
    return places if by_time is None else by_time[places]


def _few_turns(values: Ints) -> bool:
    """Whether the values are long rising and falling runs."""
    falls = values[1:] < values[:-1]
    return int(np.count_nonzero(falls[1:] != falls[:-1])) * _LONG_RUN <= len(values)


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

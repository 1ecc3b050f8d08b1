"""DISTINCT, EXCEPT and INTERSECT, with and without ALL, and rows with or without a partner: one operator that counts
equal rows on the left and on the right.

The number of copies of a row in the result is a function of the two counts. Where it rises, copies open. Where it
falls, the oldest copies close, so births and deaths pair by their rank within the row. A copy's id follows from the
row's serial number and that rank, so there is no table of copies; ids of first copies rise with time, so that those
above sort them quickly. Both counts lie in one integer (left in the low bits,
right in the high bits), so one cumulative sum serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, Block, Ints, Mask, Signed, no_ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.row_keys import mix
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.operator import Closed, Message, Opened, Operator, as_block, as_signed
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.sweeps.lifecycle import Events, Lifecycle
from kigen.lifetimes.sweeps.sweep import Runs, changes, group_runs
from kigen.plan.logical import Distinct, Except, Intersect, Matching, PlanNode

Copies = Callable[[Ints, Ints], Ints]  # copies of a row in the result, from its counts on the left and on the right
_RIGHT = np.int64(1 << 32)
_LOW = np.int64((1 << 32) - 1)
_AGAIN = np.int64(1 << 61)  # in the ids of later copies: no id of a first copy has it


@dataclass(frozen=True)
class _Units:
    """Copies that open (or close), one per unit, ordered by slot and rank."""

    slot: Ints
    time: Ints
    rank: Ints


class CountingOperator(Operator):
    """Counts equal rows of its one or two inputs. `copies` decides how many of them the result has."""

    def __init__(self, node: PlanNode, task: OperatorContext, copies: Copies) -> None:
        self.node, self._number, self._signed = node, task.number, task.signed
        self._copies = copies
        self._groups = Groups(node.schema, task.secret)
        self._inputs = [Lifecycle(child.schema, self._groups.assign, task.signed, ()) for child in node.children]
        self._counts: Ints = no_ints()  # live tuples on the left and, in the high bits, on the right; by slot
        self._born: Ints = no_ints()  # copies opened since the row appeared, by slot
        self._died: Ints = no_ints()  # copies closed since then, by slot
        self._mixed_ids = False  # states of older versions have ids that are mixed for first copies, too

    def step(self, inputs: list[Message], now: int) -> Message:
        sides = [lifecycle.events(message, now) for lifecycle, message in zip(self._inputs, inputs, strict=True)]
        events = Events.concat(sides)
        if not len(events):
            return self._nothing()
        self._make_room()
        runs = group_runs(events.slot, events.time)
        weight = events.sign if len(sides) == 1 else np.concatenate([sides[0].sign, sides[1].sign * _RIGHT])
        return self._result(runs, self._rise(runs, weight))

    def _nothing(self) -> Message:
        return Signed.empty(self.node.schema) if self._signed else Block.empty(self.node.schema)

    def _make_room(self) -> None:
        """Makes room for rows that have got slots."""
        capacity = self._groups.key_table.capacity
        self._counts, self._born, self._died = (grown(a, capacity) for a in (self._counts, self._born, self._died))

    def _result(self, runs: Runs, rise: Ints) -> Message:
        """Opens and closes copies where their number rises and falls, and forgets rows that have none left."""
        opened, closed = self._changes(runs, rise)
        touched = runs.slot[runs.first]
        gone = touched[self._counts[touched] == 0]
        self._born[gone] = self._died[gone] = 0
        self._groups.release(gone)
        return as_signed(opened, closed) if self._signed else as_block(opened, closed)

    def _rise(self, runs: Runs, weight: Ints) -> Ints:
        """Returns by how many copies the result rises (or falls) at each run."""
        starts = np.flatnonzero(runs.first)
        counts = self._counts[runs.slot[starts]]
        after = runs.cumulated(weight, self._counts)
        copies = self._copies(after & _LOW, after >> 32)
        before = np.empty_like(copies)
        before[1:] = copies[:-1]
        before[starts] = self._copies(counts & _LOW, counts >> 32)
        return copies - before

    def _changes(self, runs: Runs, rise: Ints) -> tuple[Opened, Closed]:
        touched = runs.slot[runs.first]
        died_before = np.zeros(len(self._died), dtype=np.int64)
        died_before[touched] = self._died[touched]
        born = _units(runs, np.flatnonzero(rise > 0), rise, self._born)
        died = _units(runs, np.flatnonzero(rise < 0), -rise, self._died)
        born_id, died_id = self._ids(born), self._ids(died)
        close, earlier = _pair(born, died, died_before)
        opened = Opened(self._groups.columns_of(born.slot), born.time, close, born_id)
        columns = self._groups.columns_of(died.slot) if self._signed else None
        return opened, Closed(columns, died.time, died_id, earlier)

    def _ids(self, units: _Units) -> Ints:
        serial = self._groups.key_table.serial[units.slot]
        again = units.rank > 0
        if not self._mixed_ids and not bool(again.any()):
            return serial + (self._number << HOLDER_BITS)
        mixed = mix(serial, units.rank, self._number)
        return mixed if self._mixed_ids else np.where(again, mixed | _AGAIN, serial + (self._number << HOLDER_BITS))

    @property
    def next_event(self) -> int:
        return min(lifecycle.next_death for lifecycle in self._inputs)

    @property
    def held(self) -> int:
        return sum(lifecycle.held for lifecycle in self._inputs) + len(self._groups)

    @property
    def kept_of_inputs(self) -> tuple[Lifecycle, ...]:
        return tuple(self._inputs)

    def state(self) -> State:
        return {
            "inputs": [lifecycle.state() for lifecycle in self._inputs],
            "groups": self._groups.state(),
            "counts": self._counts,
            "born": self._born,
            "died": self._died,
            "mixed_ids": self._mixed_ids,
        }

    def load(self, state: State) -> None:
        for lifecycle, saved in zip(self._inputs, state["inputs"], strict=True):
            lifecycle.load(saved)
        self._groups.load(state["groups"])
        self._counts, self._born, self._died = (state[k].copy() for k in ("counts", "born", "died"))
        self._mixed_ids = state.get("mixed_ids", True)


def _units(runs: Runs, which: Ints, amount: Ints, counter: Ints) -> _Units:
    """Returns every unit of `amount` at the runs `which`. `counter`, by slot, continues from its old values."""
    slot, amount = runs.slot[which], amount[which]
    if not len(which):
        return _Units(no_ints(), no_ints(), no_ints())
    total = np.cumsum(amount)
    starts = np.flatnonzero(changes(slot))
    base = np.where(starts > 0, total[starts - 1], 0)
    begin = total - amount - np.repeat(base, np.diff(np.append(starts, len(slot)))) + counter[slot]
    counter[slot] = begin + amount  # of several runs of one slot the last one is assigned last
    if bool((amount == 1).all()):
        return _Units(slot, runs.time[which], begin)
    return _Units(np.repeat(slot, amount), np.repeat(runs.time[which], amount), expand(begin, amount))


def _pair(born: _Units, died: _Units, died_before: Ints) -> tuple[Ints, Mask]:
    """Returns the death of each birth if this step has it, else FOREVER; and which deaths are of earlier births.

    Both inputs are ordered by slot and rank. Slot and rank (less the deaths before the step) make one number, so a
    search pairs them."""
    close = np.full(len(born.slot), FOREVER)
    earlier = np.ones(len(died.slot), dtype=np.bool_)
    if len(close) and len(earlier):
        born_rank, died_rank = born.rank - died_before[born.slot], died.rank - died_before[died.slot]
        width = int(max(born_rank.max(), died_rank.max())) + 1
        births, deaths = born.slot * width + born_rank, died.slot * width + died_rank
        place = np.minimum(np.searchsorted(births, deaths), len(births) - 1)
        paired = births[place] == deaths
        close[place[paired]] = died.time[paired]
        earlier[paired] = False
    return close, earlier


def _distinct(left: Ints, right: Ints) -> Ints:
    return np.minimum(left, 1)


def _except(left: Ints, right: Ints) -> Ints:
    only_left: Ints = ((left > 0) & (right == 0)).astype(np.int64)
    return only_left


def _except_all(left: Ints, right: Ints) -> Ints:
    surplus: Ints = np.maximum(left - right, 0)
    return surplus


def _intersect(left: Ints, right: Ints) -> Ints:
    in_both: Ints = ((left > 0) & (right > 0)).astype(np.int64)
    return in_both


def _intersect_all(left: Ints, right: Ints) -> Ints:
    return np.minimum(left, right)


def _matching(left: Ints, right: Ints) -> Ints:
    return np.where(right > 0, left, 0)


def _not_matching(left: Ints, right: Ints) -> Ints:
    return np.where(right > 0, 0, left)


def _build_except(node: Except, task: OperatorContext) -> CountingOperator:
    return CountingOperator(node, task, _except_all if node.all else _except)


def _build_intersect(node: Intersect, task: OperatorContext) -> CountingOperator:
    return CountingOperator(node, task, _intersect_all if node.all else _intersect)


DISTINCT = OperatorSpec(Distinct, lambda node, task: CountingOperator(node, task, _distinct))
EXCEPT = OperatorSpec(Except, _build_except)
INTERSECT = OperatorSpec(Intersect, _build_intersect)
MATCHING = OperatorSpec(
    Matching, lambda node, task: CountingOperator(node, task, _matching if node.occurs else _not_matching)
)

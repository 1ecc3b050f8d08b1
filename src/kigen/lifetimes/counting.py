"""DISTINCT, EXCEPT and INTERSECT, with and without ALL: one operator that counts equal rows on the left and on the right.

How many copies of a row are in the result is a function of the two counts. Where it rises, copies open; where it falls, the oldest
copies close, so births and deaths pair by their rank within the row. A copy's id follows from the row's serial number and that rank: no
table of copies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kigen.lifetimes.accumulators import grown
from kigen.lifetimes.alive import State, expand
from kigen.lifetimes.blocks import FOREVER, Block, Ints, Signed, take_columns
from kigen.lifetimes.events import Lifecycle
from kigen.lifetimes.expressions import mix, row_keys
from kigen.lifetimes.operator import Closed, Events, Message, Opened, Operator, as_block, as_signed
from kigen.lifetimes.slots import Slots
from kigen.lifetimes.sweep import Runs, group_runs
from kigen.plan.nodes import Distinct, Except, Intersect, Node

Copies = Callable[[Ints, Ints], Ints]


def copies_of(node: Node) -> Copies:
    """How many copies the result has, from the counts on the left and on the right."""
    if isinstance(node, Distinct):
        return lambda left, right: np.minimum(left, 1)
    if isinstance(node, Except):
        if node.all:
            return lambda left, right: np.maximum(left - right, 0)
        return lambda left, right: ((left > 0) & (right == 0)).astype(np.int64)
    assert isinstance(node, Intersect)
    if node.all:
        return lambda left, right: np.minimum(left, right)
    return lambda left, right: ((left > 0) & (right > 0)).astype(np.int64)


class CountingOperator(Operator):
    def __init__(self, node: Node, number: int, signed: bool) -> None:
        self.node, self._number, self._signed = node, number, signed
        self._copies = copies_of(node)
        self._keys = tuple(range(len(node.schema)))
        self._inputs = [Lifecycle(child.schema, signed) for child in node.children]
        self._slots = Slots()
        self._counts: list[Ints] = [np.zeros(0, dtype=np.int64) for _ in range(2)]  # alive left and right, by slot
        self._born: Ints = np.zeros(0, dtype=np.int64)  # copies opened and closed since the row appeared, by slot
        self._died: Ints = np.zeros(0, dtype=np.int64)

    def step(self, inputs: list[Message], now: int) -> Message:
        sides = [lifecycle.events(message, now) for lifecycle, message in zip(self._inputs, inputs, strict=True)]
        events = Events.concat(sides)
        if not len(events):
            return Signed.empty(self.node.schema) if self._signed else Block.empty(self.node.schema)
        slot = self._slots.assign(row_keys(events.columns, len(events), self._keys))
        self._grow()
        runs = group_runs(slot, events.time)
        rise = self._rise(runs, events, len(sides[0]))
        opened, closed = self._changes(runs, events, rise)
        touched = runs.slot[runs.first]
        gone = touched[(self._counts[0][touched] == 0) & (self._counts[1][touched] == 0)]
        self._born[gone] = self._died[gone] = 0
        self._slots.release(gone)
        return as_signed(opened, closed) if self._signed else as_block(opened, closed)

    def _grow(self) -> None:
        capacity = self._slots.capacity
        self._counts = [grown(c, capacity) for c in self._counts]
        self._born, self._died = grown(self._born, capacity), grown(self._died, capacity)

    def _rise(self, runs: Runs, events: Events, lefts: int) -> Ints:
        """By how many copies the result rises (or falls) at each run."""
        after, before = [], []
        for side in range(2):
            share = events.sign.copy()
            share[slice(lefts, None) if side == 0 else slice(0, lefts)] = 0
            values = runs.cumulated(share, self._counts[side])
            before.append(runs.previous(values, self._counts[side]))
            after.append(values)
        last = runs.last
        for side in range(2):
            self._counts[side][runs.slot[last]] = after[side][last]
        return self._copies(after[0], after[1]) - self._copies(before[0], before[1])

    def _changes(self, runs: Runs, events: Events, rise: Ints) -> tuple[Opened, Closed]:
        born_run, born_rank = _ranks(runs, np.maximum(rise, 0), self._born)
        died_run, died_rank = _ranks(runs, np.maximum(-rise, 0), self._died)
        serial = self._slots.serial
        born_id = mix(serial[runs.slot[born_run]], born_rank, self._number)
        died_id = mix(serial[runs.slot[died_run]], died_rank, self._number)
        start, end = runs.time[born_run], runs.time[died_run]
        close, earlier = _pair(born_id, died_id, end)
        sample = runs.sample()
        opened = Opened(take_columns(events.columns, sample[born_run]), start, close, born_id)
        columns: pa.RecordBatch | None = take_columns(events.columns, sample[died_run]) if self._signed else None
        return opened, Closed(columns, end, died_id, earlier)

    @property
    def next_event(self) -> int:
        return min(lifecycle.next_death for lifecycle in self._inputs)

    @property
    def held(self) -> int:
        return sum(lifecycle.held for lifecycle in self._inputs) + len(self._slots)

    def state(self) -> State:
        return {
            "inputs": [lifecycle.state() for lifecycle in self._inputs],
            "slots": self._slots.state(),
            "counts": self._counts,
            "born": self._born,
            "died": self._died,
        }

    def load(self, state: State) -> None:
        for lifecycle, saved in zip(self._inputs, state["inputs"], strict=True):
            lifecycle.load(saved)
        self._slots.load(state["slots"])
        self._counts = [c.copy() for c in state["counts"]]
        self._born, self._died = state["born"].copy(), state["died"].copy()


def _ranks(runs: Runs, amount: Ints, counter: Ints) -> tuple[Ints, Ints]:
    """Every unit of `amount` with its run and its rank within the row; `counter`, by slot, goes on from where it was."""
    total = np.cumsum(amount)
    starts = np.flatnonzero(runs.first)
    base = np.where(starts > 0, total[starts - 1], 0)
    lengths = np.diff(np.append(starts, len(total)))
    begin = total - amount - np.repeat(base, lengths) + counter[runs.slot]
    last = runs.last
    counter[runs.slot[last]] = (begin + amount)[last]
    return np.repeat(np.arange(len(runs)), amount), expand(begin, amount)


def _pair(born: Ints, died: Ints, end: Ints) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The death of each birth where this step holds it, else FOREVER; and which deaths are of earlier births."""
    close = np.full(len(born), FOREVER)
    earlier = np.ones(len(died), dtype=np.bool_)
    if len(born) and len(died):
        _, born_at, died_at = np.intersect1d(born, died, assume_unique=True, return_indices=True)
        close[born_at] = end[died_at]
        earlier[died_at] = False
    return close, earlier

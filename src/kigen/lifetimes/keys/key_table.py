"""A map from 64-bit row keys to small, stable slot numbers: open addressing over numpy arrays, whole batches at a time.

A slot belongs to its key until it is released. Released slots are used again, with a new serial number. The table holds
only slot numbers, 4 bytes per cell; the key of a cell is that of its slot (`key_of`). The position of a key depends on
a secret, so that crafted keys cannot collide. Cost: a few vector passes over the batch, whatever the number of keys
held; nearly all keys are done in the first pass. Released keys leave tombstones; the table is rebuilt when there are
too many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Ints

Cells = np.ndarray[Any, np.dtype[np.int32]]
_EMPTY, _TOMBSTONE = -1, -2


def _cells(size: int) -> Cells:
    return np.full(size, _EMPTY, dtype=np.int32)


class KeyTable:
    """Gives each key a slot."""

    def __init__(self, secret: int = 0) -> None:
        self._multiplier = np.uint64((secret * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF | 1)
        self._slot = _cells(16)
        self._used = 0  # cells that are not empty, tombstones included
        self.key_of: Ints = np.zeros(8, dtype=np.int64)  # by slot
        self.serial: Ints = np.full(8, -1, dtype=np.int64)  # by slot; -1: the slot is free
        self._stack: Cells = np.arange(7, -1, -1, dtype=np.int32)  # free slots; the last one is given out next
        self._free = 8  # number of free slots on the stack
        self._next_serial = 0

    @property
    def capacity(self) -> int:
        return len(self.serial)

    def __len__(self) -> int:
        return self.capacity - self._free

    def _home(self, keys: Ints, mask: int) -> Ints:
        """Returns the first cell of each key: the upper bits of a product with a secret number. Without the secret,
        nobody can choose keys that collide more often than by chance."""
        product = keys.view(np.uint64) * self._multiplier
        return (product >> np.uint64(64 - mask.bit_length())).view(np.int64)

    def find(self, keys: Ints) -> Ints:
        """Returns the slot of each key, -1 where it has none."""
        mask = len(self._slot) - 1
        found = np.full(len(keys), -1, dtype=np.int64)
        rest = np.arange(len(keys))
        position = self._home(keys, mask)
        while len(rest):
            slot = self._slot[position]
            hit = (slot >= 0) & (self.key_of[slot] == keys[rest])
            found[rest[hit]] = slot[hit]
            on = ~hit & (slot != _EMPTY)
            rest = rest[on]
            position = (position[on] + 1) & mask
        return found

    def assign(self, keys: Ints) -> tuple[Ints, Ints]:
        """Returns the slot of each key, and the positions of the keys that had none and got a free slot (each such key
        once).

        One walk finds and adds. A key that reaches an empty cell writes a slot of its own there. If several do so, the
        last writer wins; the others read the cell back and see whether the winner has their key (then its slot is
        theirs) or not (then they continue)."""
        self._grow(len(keys))
        mask = len(self._slot) - 1
        own = self._stack[self._free - len(keys) : self._free][::-1].astype(np.int64)  # one offered per key
        position = self._home(keys, mask)
        slot, won, on = self._visit(position, keys, own)
        found, fresh = slot.astype(np.int64), [won]
        rest = on
        while len(rest):
            position = (position[on] + 1) & mask
            slot, won, on = self._visit(position, keys[rest], own[rest])
            found[rest] = slot  # correct for the keys that are done; the others are set again later
            fresh.append(rest[won])
            rest = rest[on]
        new = np.concatenate(fresh)
        if len(new):
            self._take(own, new)
        return found, new

    def _visit(self, position: Ints, wanted: Ints, offer: Ints) -> tuple[Cells, Ints, Ints]:
        """Takes one step of the walk. Returns the content of each cell, the keys that took an empty cell, and the keys
        that must continue."""
        slot = self._slot[position]
        empty = np.flatnonzero(slot == _EMPTY)
        won = empty
        if len(empty):
            cells, mine = position[empty], offer[empty]
            self._slot[cells] = mine
            winner = self._slot[cells]
            slot[empty] = winner
            won = empty[winner == mine]
            self.key_of[offer[won]] = wanted[won]
        return slot, won, np.flatnonzero((slot < 0) | (self.key_of[slot] != wanted))

    def _take(self, own: Ints, new: Ints) -> None:
        """Takes the offered slots at the positions `new`; the others stay free."""
        new = np.sort(new, kind="stable")  # the order must not depend on the cells in which keys met; a few runs
        slots = own[new]
        left = np.ones(len(own), dtype=np.bool_)
        left[new] = False
        kept = own[left][::-1]
        bottom = self._free - len(own)
        self._stack[bottom : bottom + len(kept)] = kept
        self._free = bottom + len(kept)
        self.serial[slots] = np.arange(self._next_serial, self._next_serial + len(slots))
        self._next_serial += len(slots)
        self._used += len(slots)

    def _grow(self, more: int) -> None:
        """Makes room for `more` new keys: in the table (at most six tenths full) and among the free slots."""
        if (self._used + more) * 5 > len(self._slot) * 3:
            self._rebuild(more)
        if more <= self._free:
            return
        old = self.capacity
        new = old + max(old // 4, more)  # not doubled: every operator has several arrays of this length
        self.key_of = np.concatenate([self.key_of, np.zeros(new - old, dtype=np.int64)])
        self.serial = np.concatenate([self.serial, np.full(new - old, -1, dtype=np.int64)])
        stack = np.empty(new, dtype=np.int32)
        stack[: new - old] = np.arange(new - 1, old - 1, -1)
        stack[new - old : new - old + self._free] = self._stack[: self._free]
        self._stack, self._free = stack, self._free + new - old

    def _insert(self, keys: Ints, slots: Ints) -> None:
        """Writes keys into empty cells. If several want one cell, the last writer wins, and the others continue with
        the next cell."""
        mask = len(self._slot) - 1
        self._used += len(keys)
        position = self._home(keys, mask)
        while len(keys):
            free = self._slot[position] == _EMPTY
            self._slot[position[free]] = slots[free]
            won = free & (self._slot[position] == slots)
            keys, slots, position = keys[~won], slots[~won], (position[~won] + 1) & mask

    def _rebuild(self, more: int) -> None:
        live = np.flatnonzero(self.serial >= 0)
        size = 16
        while size * 2 < (len(live) + more) * 5:
            size *= 2
        self._slot = _cells(size)
        self._used = 0
        self._insert(self.key_of[live], live)

    def release(self, slots: Ints) -> None:
        """Frees slots (each once) and forgets their keys."""
        if not len(slots):
            return
        mask = len(self._slot) - 1
        rest, position = slots, self._home(self.key_of[slots], mask)
        while len(rest):
            here = self._slot[position] == rest
            self._slot[position if bool(here.all()) else position[here]] = _TOMBSTONE
            on = np.flatnonzero(~here)
            rest, position = rest[on], (position[on] + 1) & mask
        self.serial[slots] = -1
        self._stack[self._free : self._free + len(slots)] = slots
        self._free += len(slots)

    def state(self) -> dict[str, Any]:
        live = np.flatnonzero(self.serial >= 0)
        return {
            "slots": live,
            "keys": self.key_of[live],
            "serial": self.serial[live],
            "next": self._next_serial,
            "capacity": self.capacity,
            "free": self._stack[: self._free],
        }

    def load(self, state: dict[str, Any]) -> None:
        capacity, live = state["capacity"], state["slots"]
        self.key_of = np.zeros(capacity, dtype=np.int64)
        self.serial = np.full(capacity, -1, dtype=np.int64)
        self.key_of[live], self.serial[live] = state["keys"], state["serial"]
        free = state["free"]  # in its order: slots decide the order of results, on which replicas must agree
        self._stack = np.empty(capacity, dtype=np.int32)
        self._stack[: len(free)] = free
        self._free = len(free)
        self._next_serial = state["next"]
        self._rebuild(0)

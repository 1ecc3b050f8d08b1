"""A map from 64-bit row keys to small, stable slot numbers: open addressing over numpy arrays, whole batches at a time.

A slot stays with its key until it is released; released slots are used again, with a new serial number. Cost: a few vector passes over
the batch, whatever the number of keys held. Released keys leave tombstones; the table is rebuilt when they pile up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Ints, no_ints

_EMPTY, _TOMBSTONE = -1, -2


def _home(keys: Ints, mask: int) -> Ints:
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask)).astype(np.int64)


class Slots:
    def __init__(self) -> None:
        self._keys: Ints = np.zeros(16, dtype=np.int64)
        self._slot: Ints = np.full(16, _EMPTY, dtype=np.int64)
        self._used = 0  # cells not empty, tombstones included
        self.key_of: Ints = np.zeros(8, dtype=np.int64)  # by slot
        self.serial: Ints = np.full(8, -1, dtype=np.int64)  # by slot; -1: free
        self._free: Ints = np.arange(7, -1, -1, dtype=np.int64)
        self._next_serial = 0

    @property
    def capacity(self) -> int:
        return len(self.serial)

    def __len__(self) -> int:
        return self.capacity - len(self._free)

    def find(self, keys: Ints) -> Ints:
        """The slot of each key, -1 where it has none."""
        mask = len(self._slot) - 1
        found = np.full(len(keys), -1, dtype=np.int64)
        rest = np.arange(len(keys))
        position = _home(keys, mask)
        while len(rest):
            slot = self._slot[position]
            hit = (slot >= 0) & (self._keys[position] == keys[rest])
            found[rest[hit]] = slot[hit]
            on = ~hit & (slot != _EMPTY)
            rest = rest[on]
            position = (position[on] + 1) & mask
        return found

    def assign(self, keys: Ints) -> tuple[Ints, Ints]:
        """The slot of each key, and the places of the keys that had none and got a free slot (each such key once).

        One walk finds and adds: whoever comes to an empty cell writes a slot of its own there; of several the last writer wins, and the
        others see on reading back whether the winner has their key (then its slot is theirs) or not (then they go on)."""
        self._grow(len(keys))
        found = np.empty(len(keys), dtype=np.int64)
        mask = len(self._slot) - 1
        own = self._free[len(self._free) - len(keys) :][::-1]
        rest, position = np.arange(len(keys)), _home(keys, mask)
        fresh: list[Ints] = []
        while len(rest):
            slot, wanted = self._slot[position], keys[rest]
            empty = slot == _EMPTY
            if bool(empty.any()):
                self._slot[position[empty]] = own[rest[empty]]
                slot = self._slot[position]
                won = empty & (slot == own[rest])
                self._keys[position[won]] = wanted[won]
                fresh.append(rest[won])
            hit = (slot >= 0) & (self._keys[position] == wanted)
            found[rest[hit]] = slot[hit]
            rest, position = rest[~hit], (position[~hit] + 1) & mask
        if not fresh:
            return found, no_ints()
        new = np.concatenate(fresh)
        self._take(own[new], keys[new], len(keys))
        return found, new

    def _take(self, slots: Ints, keys: Ints, offered: int) -> None:
        """Of the free slots that were offered, these are taken now; the others go back."""
        taken = np.zeros(offered, dtype=np.bool_)
        at = len(self._free) - offered
        place = np.empty(self.capacity, dtype=np.int64)
        place[self._free[at:]] = np.arange(offered)
        taken[place[slots]] = True
        self._free = np.concatenate([self._free[:at], self._free[at:][~taken]])
        self.key_of[slots] = keys
        self.serial[slots] = np.arange(self._next_serial, self._next_serial + len(slots))
        self._next_serial += len(slots)
        self._used += len(slots)

    def _grow(self, more: int) -> None:
        """Room for so many new keys: in the table (at most half full) and among the free slots."""
        if (self._used + more) * 2 > len(self._slot):
            self._rebuild(more)
        if more <= len(self._free):
            return
        old = self.capacity
        new = max(old * 2, old + more)
        self.key_of = np.concatenate([self.key_of, np.zeros(new - old, dtype=np.int64)])
        self.serial = np.concatenate([self.serial, np.full(new - old, -1, dtype=np.int64)])
        self._free = np.concatenate([np.arange(new - 1, old - 1, -1, dtype=np.int64), self._free])

    def _insert(self, keys: Ints, slots: Ints) -> None:
        """Into empty cells only; of several that want one cell the last writer wins, the others go on to the next."""
        mask = len(self._slot) - 1
        self._used += len(keys)
        position = _home(keys, mask)
        while len(keys):
            free = self._slot[position] == _EMPTY
            self._slot[position[free]] = slots[free]
            won = free & (self._slot[position] == slots)
            self._keys[position[won]] = keys[won]
            keys, slots, position = keys[~won], slots[~won], (position[~won] + 1) & mask

    def _rebuild(self, more: int) -> None:
        live = np.flatnonzero(self.serial >= 0)
        size = 16
        while size < (len(live) + more) * 3:
            size *= 2
        self._keys = np.zeros(size, dtype=np.int64)
        self._slot = np.full(size, _EMPTY, dtype=np.int64)
        self._used = 0
        self._insert(self.key_of[live], live)

    def release(self, slots: Ints) -> None:
        """Give slots back (each once); their keys are forgotten."""
        if not len(slots):
            return
        mask = len(self._slot) - 1
        rest, position = slots, _home(self.key_of[slots], mask)
        while len(rest):
            here = self._slot[position] == rest
            self._slot[position[here]] = _TOMBSTONE
            rest, position = rest[~here], (position[~here] + 1) & mask
        self.serial[slots] = -1
        self._free = np.concatenate([self._free, slots])

    def state(self) -> dict[str, Any]:
        live = np.flatnonzero(self.serial >= 0)
        return {"slots": live, "keys": self.key_of[live], "serial": self.serial[live], "next": self._next_serial, "capacity": self.capacity}

    def load(self, state: dict[str, Any]) -> None:
        capacity, live = state["capacity"], state["slots"]
        self.key_of = np.zeros(capacity, dtype=np.int64)
        self.serial = np.full(capacity, -1, dtype=np.int64)
        self.key_of[live], self.serial[live] = state["keys"], state["serial"]
        self._free = np.flatnonzero(self.serial < 0)[::-1].copy() if capacity else no_ints()
        self._next_serial = state["next"]
        self._rebuild(0)

"""Keeps time for a stream that is read from several partitions, each of which is in order up to LATENESS by itself.

The watermark is the greatest timestamp of each partition less LATENESS, least over the partitions that are not idle.
Which partitions exist and which are idle is decided where the log is watched and recorded with the range, so a replay
computes the same. If all are idle the watermark stops; if the record says how long the silence has lasted, it goes on
by that time. Invariant: the watermark never goes back. Cost: a few array operations per partition and block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import BEFORE_TIME, Ints, Mask

PARTITION = "_partition"  # column of a table: the partition of each row, dictionary-encoded text


@dataclass(frozen=True)
class Partitions:
    """Partitions of a log at the end of a range. `silence`: since when all are idle, and for how long, in us."""

    names: tuple[str, ...]
    idle: frozenset[str] = frozenset()
    silence: tuple[int, int] | None = None


class PartitionClock:
    """Finds late tuples and the watermark of one stream. `raising`: a late tuple is not dropped but gets the earliest
    timestamp that is not late, which suits a timestamp that only says when a tuple arrived."""

    def __init__(self, lateness_us: int, raising: bool = False) -> None:
        self._lateness_us, self._raising = lateness_us, raising
        self._codes: dict[str, int] = {}
        self._newest: list[int] = []  # by code: greatest timestamp so far
        self._idle: set[int] = set()
        self._touched: set[int] = set()  # partitions with rows since the last `settle`
        self._silent_since: int | None = None
        self._silent_from = BEFORE_TIME  # the watermark when the silence began
        self.watermark = BEFORE_TIME

    @property
    def newest(self) -> int:
        return max(self._newest, default=BEFORE_TIME)

    def codes(self, column: pa.Array) -> Ints:
        """Returns the partition of each row as a number that this clock has given it."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = np.array([self._code(name) for name in encoded.dictionary.to_pylist()], np.int64)
        return known[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)] if len(column) else known[:0]

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes[name] = len(self._codes)
            self._newest.append(BEFORE_TIME)
        return self._codes[name]

    def admit(self, ts: Ints, codes: Ints, released: int) -> tuple[Ints, Mask | None]:
        """Takes the next tuples of the log. Returns their timestamps, and which are late; None: none is."""
        late: Mask = np.zeros(len(ts), np.bool_)
        earliest = np.full(len(ts), released)
        for code in np.unique(codes).tolist():
            mine = codes == code
            times, newest = ts[mine], self._newest[code]
            reached = np.maximum.accumulate(np.maximum(times, newest))
            before = np.concatenate([[newest], reached[:-1]])
            earliest[mine] = np.maximum(before - self._lateness_us, released)
            self._newest[code] = int(reached[-1])
            self._touched.add(code)
        late = ts < earliest
        if not late.any():
            return ts, None
        return (np.maximum(ts, earliest), None) if self._raising else (ts, late)

    def ranks(self, codes: Ints) -> Ints:
        """Returns numbers in the order of the partitions: by the text before the last slash, then by number."""
        order = sorted(self._codes, key=_place)
        ranks = np.empty(len(order), np.int64)
        for rank, name in enumerate(order):
            ranks[self._codes[name]] = rank
        return ranks[codes]

    def settle(self, found: Partitions) -> None:
        """Moves the watermark, after the rows of a range have been admitted."""
        existing = {self._code(name) for name in found.names}
        idle = {self._code(name) for name in found.idle}
        active = existing - idle
        if active:
            self._silent_since = None
            self._reach([self._newest[code] for code in active])
        else:
            since, lasting_us = (None, 0) if found.silence is None else found.silence
            if since is None or since != self._silent_since:
                spoke = (existing - self._idle) | self._touched
                self._reach([self._newest[code] for code in spoke if self._newest[code] != BEFORE_TIME])
                self._silent_since, self._silent_from = since, self.watermark
            if self._silent_from != BEFORE_TIME:
                self.watermark = max(self.watermark, self._silent_from + lasting_us)
        self._idle, self._touched = idle, set()

    def _reach(self, newest: list[int]) -> None:
        least = min(newest, default=BEFORE_TIME)
        if least != BEFORE_TIME:
            self.watermark = max(self.watermark, least - self._lateness_us)

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self._codes),
            "newest": list(self._newest),
            "idle": sorted(self._idle),
            "silence": [self._silent_since, self._silent_from],
            "watermark": self.watermark,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._codes = {name: code for code, name in enumerate(state["names"])}
        self._newest, self._idle = list(state["newest"]), set(state["idle"])
        self._silent_since, self._silent_from = state["silence"]
        self.watermark = state["watermark"]


def _place(name: str) -> tuple[str, int, str]:
    log, _, number = name.rpartition("/")
    return (log, int(number), "") if number.isdecimal() else (name, -1, number)

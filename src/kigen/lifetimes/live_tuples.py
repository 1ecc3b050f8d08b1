"""The live tuples that an operator keeps: those with a known death, sorted lazily, and those that wait for theirs.

`Expiring` is the paper's lazy sorting: a chunk stays unsorted, with its earliest death remembered, until time reaches
it. `Waiting` is the undetermined set with its observers: fills find their tuples by holder. `LiveTuples` combines both.
Adding costs O(chunk). A step touches only the chunks whose deaths or holders it passes, so the cost per tuple does not
depend on the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import (
    FOREVER,
    NO_HOLDER,
    Block,
    Fills,
    Ints,
    Mask,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.lifetimes.sweeps.sorted_search import consecutive, overlap, places, strictly_ordered
from kigen.plan.types import Schema

State = dict[str, Any]
MOST_TEXT = 1 << 29  # bytes of columns in a merged chunk: Arrow's text offsets have 32 bits
_MAX_CHUNKS = 256


@dataclass
class Chunk:
    """Tuples that are kept together: columns, lifetimes, and a `key` per tuple that the operator computed when the
    tuple came."""

    columns: pa.RecordBatch
    start: Ints
    end: Ints
    holder: Ints
    key: Ints | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Ints) -> Chunk:
        key = None if self.key is None else self.key[index]
        return Chunk(take_columns(self.columns, index), self.start[index], self.end[index], self.holder[index], key)

    def filter(self, mask: Mask) -> Chunk:
        key = None if self.key is None else self.key[mask]
        return Chunk(filter_columns(self.columns, mask), self.start[mask], self.end[mask], self.holder[mask], key)

    def mortal(self) -> Chunk:
        """Drops the tuples that are known never to die."""
        dies = (self.end != FOREVER) | (self.holder != NO_HOLDER)
        return self if bool(dies.all()) else self.filter(dies)

    def cut(self, begin: int, stop: int) -> Chunk:
        part = slice(begin, stop)
        columns = self.columns.slice(begin, stop - begin) if self.columns.num_columns else self.columns
        return Chunk(
            columns, self.start[part], self.end[part], self.holder[part], None if self.key is None else self.key[part]
        )

    @staticmethod
    def empty(schema: Schema) -> Chunk:
        return Chunk(empty_columns(schema), no_ints(), no_ints(), no_ints(), no_ints())

    @staticmethod
    def concat(parts: list[Chunk], schema: Schema) -> Chunk:
        parts = [p for p in parts if len(p)]
        if len(parts) <= 1:
            return parts[0] if parts else Chunk.empty(schema)
        return Chunk(
            concat_columns([p.columns for p in parts]),
            concat_ints([p.start for p in parts]),
            concat_ints([p.end for p in parts]),
            concat_ints([p.holder for p in parts]),
            concat_ints([p.key for p in parts if p.key is not None]) if parts[0].key is not None else None,
        )

    @staticmethod
    def packed(chunks: list[Chunk], schema: Schema) -> list[Chunk]:
        """Merges chunks into as few as text offsets of 32 bits allow."""
        packs: list[list[Chunk]] = [[]]
        size = 0
        for chunk in chunks:
            size += chunk.columns.nbytes
            if size > MOST_TEXT and packs[-1]:
                packs.append([])
                size = chunk.columns.nbytes
            packs[-1].append(chunk)
        return [Chunk.concat(pack, schema) for pack in packs]

    def state(self) -> State:
        return {"columns": self.columns, "start": self.start, "end": self.end, "holder": self.holder, "key": self.key}

    @staticmethod
    def load(state: State) -> Chunk:
        return Chunk(state["columns"], state["start"], state["end"], state["holder"], state["key"])


def chunk_of(block: Block, mask: Mask | None = None) -> Chunk:
    """Makes a chunk of a block's tuples, or of those in `mask`."""
    chunk = Chunk(block.columns, block.start, block.end, block.holder)
    return chunk if mask is None else chunk.filter(mask)


@dataclass
class _Calendar:
    """A chunk and its earliest and latest death. `ordered`: it is sorted by death."""

    chunk: Chunk
    earliest: int
    latest: int
    ordered: bool


class Expiring:
    """Tuples with known deaths. `pop(now)` returns those that died before `now`, each once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._chunks: list[_Calendar] = []

    def add(self, chunk: Chunk) -> None:
        if len(chunk):
            self._append(chunk)
            if len(self._chunks) > _MAX_CHUNKS:
                self._merge()

    def _append(self, chunk: Chunk) -> None:
        ends = chunk.end
        ordered = bool(np.all(ends[1:] >= ends[:-1]))
        earliest, latest = (ends[0], ends[-1]) if ordered else (ends.min(), ends.max())
        self._chunks.append(_Calendar(chunk, int(earliest), int(latest), ordered))

    def _merge(self) -> None:
        """Merges neighbouring chunks in pairs. A merged chunk is unsorted again."""
        kept, self._chunks = self._chunks, []
        for i in range(0, len(kept), 2):
            for chunk in Chunk.packed([c.chunk for c in kept[i : i + 2]], self._schema):
                self._append(chunk)

    @property
    def next_death(self) -> int:
        return min((c.earliest for c in self._chunks), default=FOREVER)

    def pop(self, now: int) -> Chunk:
        dead: list[Chunk] = []
        left: list[_Calendar] = []
        for calendar in self._chunks:
            if calendar.earliest >= now:
                left.append(calendar)
                continue
            if calendar.latest < now:
                dead.append(calendar.chunk)
                continue
            if not calendar.ordered:  # time has reached it: sort it once
                calendar.chunk = calendar.chunk.take(np.argsort(calendar.chunk.end, kind="stable"))
                calendar.ordered = True
            split = int(np.searchsorted(calendar.chunk.end, now, side="left"))
            dead.append(calendar.chunk.cut(0, split))
            calendar.chunk = calendar.chunk.cut(split, len(calendar.chunk))
            calendar.earliest = int(calendar.chunk.end[0])
            left.append(calendar)
        self._chunks = left
        return Chunk.concat(dead, self._schema)

    def chunks(self) -> list[Chunk]:
        return [c.chunk for c in self._chunks]

    def __len__(self) -> int:
        return sum(len(c.chunk) for c in self._chunks)


@dataclass
class _Held:
    """A chunk of waiting tuples, ordered by holder."""

    chunk: Chunk
    open: Mask
    left: int  # how many are open
    gapless: bool  # the holders are consecutive


class Waiting:
    """Tuples whose holder is not filled. `fill` returns those whose holder is filled now, with their deaths."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._held: list[_Held] = []

    def add(self, chunk: Chunk) -> None:
        if len(chunk):
            self._append(chunk)
            if len(self._held) > _MAX_CHUNKS:
                kept, self._held = self._held, []
                for i in range(0, len(kept), 2):
                    for merged in Chunk.packed([h.chunk.filter(h.open) for h in kept[i : i + 2]], self._schema):
                        self._append(merged)

    def _append(self, chunk: Chunk) -> None:
        holder = chunk.holder
        strict = strictly_ordered(holder)
        if not strict and not bool(np.all(holder[1:] >= holder[:-1])):
            chunk = chunk.take(np.argsort(holder, kind="stable"))
            strict = strictly_ordered(chunk.holder)
        gapless = strict and consecutive(chunk.holder)
        self._held.append(_Held(chunk, np.ones(len(chunk), dtype=np.bool_), len(chunk), gapless))

    def fill(self, fills: Fills) -> Chunk:
        if not len(fills) or not self._held:
            return Chunk.empty(self._schema)
        fills = fills.sorted()
        found: list[Chunk] = []
        for held in self._held:
            found.extend(self._fill_one(held, fills))
        self._held = [h for h in self._held if h.left]
        return Chunk.concat(found, self._schema)

    @staticmethod
    def _fill_one(held: _Held, fills: Fills) -> list[Chunk]:
        holder = held.chunk.holder
        within = overlap(fills.holder, holder)
        if within.start >= within.stop:
            return []
        begin, counts = places(holder, fills.holder[within], held.gapless)
        index, death = (
            (begin, fills.end[within])
            if held.gapless
            else (expand(begin, counts), np.repeat(fills.end[within], counts))
        )
        fresh = held.open[index]
        if not bool(fresh.all()):
            index, death = index[fresh], death[fresh]
        if not len(index):
            return []
        held.open[index] = False
        held.left -= len(index)
        chunk = held.chunk.take(index)
        chunk.end = death
        if held.left and held.left * 2 < len(held.open):
            held.chunk, held.open = held.chunk.filter(held.open), np.ones(held.left, dtype=np.bool_)
            held.gapless = held.gapless and consecutive(held.chunk.holder)
        return [chunk]

    def chunks(self) -> list[Chunk]:
        return [h.chunk.filter(h.open) for h in self._held]

    def __len__(self) -> int:
        return sum(h.left for h in self._held)


def expand(begin: Ints, counts: Ints) -> Ints:
    """Returns begin[i], begin[i]+1, ..., counts[i] numbers for each i, one after another."""
    total = int(counts.sum())
    if not total:
        return no_ints()
    ends = np.cumsum(counts)
    return np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(begin, counts)


class LiveTuples:
    """All live tuples of a relation, for operators that must act on deaths."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.expiring = Expiring(schema)
        self.waiting = Waiting(schema)

    def absorb(self, chunk: Chunk, fills: Fills, now: int) -> Chunk:
        """Adds a step's births and fills. Returns all tuples that died before `now`; some of them may be born in this
        step."""
        filled = self.waiting.fill(fills)
        open_ended = (chunk.end == FOREVER) & (chunk.holder != NO_HOLDER)
        if bool(open_ended.any()):
            self.waiting.add(chunk.filter(open_ended))
            chunk = chunk.filter(~open_ended)
        self.expiring.add(chunk)
        return Chunk.concat([filled, self.expiring.pop(now)], self.schema)

    @property
    def next_death(self) -> int:
        return self.expiring.next_death

    def everything(self) -> Chunk:
        return Chunk.concat(self.expiring.chunks() + self.waiting.chunks(), self.schema)

    def __len__(self) -> int:
        return len(self.expiring) + len(self.waiting)

    def state(self) -> State:
        return {
            "expiring": [chunk.state() for chunk in Chunk.packed(self.expiring.chunks(), self.schema)],
            "waiting": [chunk.state() for chunk in Chunk.packed(self.waiting.chunks(), self.schema)],
        }

    def load(self, state: State) -> None:
        self.expiring, self.waiting = Expiring(self.schema), Waiting(self.schema)
        for saved in chunk_states(state["expiring"]):
            self.expiring.add(Chunk.load(saved))
        for saved in chunk_states(state["waiting"]):
            self.waiting.add(Chunk.load(saved))


def chunk_states(saved: State | list[State]) -> list[State]:
    """Returns saved chunks as a list. Older formats saved only one."""
    return saved if isinstance(saved, list) else [saved]

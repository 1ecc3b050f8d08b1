"""The live tuples that an operator keeps: those with a known death, sorted lazily, and those that wait for theirs.

`Expiring` is the paper's lazy sorting: a chunk stays unsorted, with its earliest death remembered, until time reaches
it. `Waiting` is the undetermined set with its observers: fills find their tuples by holder. Chunks whose holders lie
among one another are merged, so that there are few to search. `LiveTuples` combines both.
Adding costs O(chunk). A step touches only the chunks whose deaths or holders it passes, so the cost per tuple does not
depend on the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Fills, Ints, Mask, no_ints
from kigen.lifetimes.chunks import Chunk, State, chunk_states
from kigen.lifetimes.sweeps.sorted_search import consecutive, overlap, places, strictly_ordered
from kigen.plan.types import Schema

_MAX_CHUNKS = 256
_MERGED = 8  # chunks that become one when there are too many


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
        self.next_death = FOREVER  # the earliest of all
        self._in_turn = True  # whether each chunk dies before the next one does

    def add(self, chunk: Chunk) -> None:
        if len(chunk):
            self._append(chunk)
            if len(self._chunks) > _MAX_CHUNKS:
                self._merge()

    def _append(self, chunk: Chunk) -> None:
        ends = chunk.end
        ordered = bool((ends[1:] >= ends[:-1]).all())
        earliest, latest = (ends[0], ends[-1]) if ordered else (ends.min(), ends.max())
        self._in_turn = self._in_turn and (not self._chunks or self._chunks[-1].latest <= int(earliest))
        self._chunks.append(_Calendar(chunk, int(earliest), int(latest), ordered))
        self.next_death = min(self.next_death, int(earliest))

    def _merge(self) -> None:
        """Merges neighbouring chunks. A merged chunk is sorted again when time reaches it."""
        kept, self._chunks = self._chunks, []
        self._in_turn = True
        for i in range(0, len(kept), _MERGED):
            for chunk in Chunk.packed([c.chunk for c in kept[i : i + _MERGED]], self._schema):
                self._append(chunk)

    def pop(self, now: int) -> Chunk:
        if self.next_death >= now:
            return Chunk.empty(self._schema)
        if self._in_turn:
            return self._pop_first(now)
        dead = [self._cut(c, now) for c in self._chunks if c.earliest < now]
        self._chunks = [c for c in self._chunks if c.latest >= now]
        self._in_turn = len(self._chunks) <= 1
        self.next_death = min([c.earliest for c in self._chunks], default=FOREVER)
        return Chunk.concat(dead, self._schema)

    def _pop_first(self, now: int) -> Chunk:
        """Does `pop` where the first chunks die first: it looks at no other."""
        dead, gone = [], 0
        for calendar in self._chunks:
            if calendar.earliest >= now:
                break
            dead.append(self._cut(calendar, now))
            gone += calendar.latest < now
        del self._chunks[:gone]
        self.next_death = self._chunks[0].earliest if self._chunks else FOREVER
        return Chunk.concat(dead, self._schema)

    @staticmethod
    def _cut(calendar: _Calendar, now: int) -> Chunk:
        """Returns the dead of a chunk that has some, and leaves the living in it, if there are any."""
        if calendar.latest < now:
            return calendar.chunk
        if not calendar.ordered:  # time has reached it: sort it once
            calendar.chunk = calendar.chunk.take(np.argsort(calendar.chunk.end, kind="stable"))
            calendar.ordered = True
        split = int(calendar.chunk.end.searchsorted(now, side="left"))
        dead, calendar.chunk = calendar.chunk.cut(0, split), calendar.chunk.cut(split, len(calendar.chunk))
        calendar.earliest = int(calendar.chunk.end[0])
        return dead

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
        for part in self._with_neighbours(chunk) if len(chunk) else ():
            self._append(part)
            if len(self._held) > _MAX_CHUNKS:
                kept, self._held = self._held, []
                for i in range(0, len(kept), _MERGED):
                    for merged in Chunk.packed([h.chunk.filter(h.open) for h in kept[i : i + _MERGED]], self._schema):
                        self._append(merged)

    def _with_neighbours(self, chunk: Chunk) -> list[Chunk]:
        """Merges a chunk with the last ones that are not more than twice as long, if its holders lie among theirs.
        Holders that are mixed, as those of pairs are, lie anywhere: without this, each fill would be searched for in
        each chunk. So there are O(log tuples) such chunks, and a tuple moves as often."""
        least, greatest = int(chunk.holder.min()), int(chunk.holder.max())
        parts, size = [chunk], len(chunk)
        while self._held and self._held[-1].left <= 2 * size:
            holder = self._held[-1].chunk.holder
            if int(holder[-1]) < least or int(holder[0]) > greatest:
                break
            last = self._held.pop()
            parts.insert(0, last.chunk if last.left == len(last.open) else last.chunk.filter(last.open))
            size += last.left
            least, greatest = min(least, int(holder[0])), max(greatest, int(holder[-1]))
        return Chunk.packed(parts, self._schema) if len(parts) > 1 else parts

    def _append(self, chunk: Chunk) -> None:
        holder = chunk.holder
        strict = strictly_ordered(holder)
        if not strict and not bool((holder[1:] >= holder[:-1]).all()):
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

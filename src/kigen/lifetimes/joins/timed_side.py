"""One side of a join that runs slice by slice. Its tuples lie in pieces ordered by key and birth, so that the older
partners of a tuple within a span of ages are a range that a search finds. The tuples that some slice has not reached
yet are also kept in the order of their births.

Pieces are few and of growing size, as in kigen.lifetimes.joins.join_side. Each holds the births of one stretch of time,
so a slice skips those that are too young or too old for it. Invariant: a tuple stays while the slowest slice may still
ask for it. Cost: a tuple is moved O(log window) times; a probe is one search per piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    FOREVER,
    Ints,
    Mask,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.lifetimes.chunks import State
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.sorted_search import first_from, overlap, strictly_ordered
from kigen.plan.types import Schema


@dataclass(frozen=True)
class TimedTuples:
    """Columns, births and join keys of tuples."""

    columns: pa.RecordBatch
    birth: Ints
    key: Ints

    def __len__(self) -> int:
        return len(self.birth)

    def take(self, index: Ints) -> TimedTuples:
        return TimedTuples(take_columns(self.columns, index), self.birth[index], self.key[index])

    def filter(self, mask: Mask) -> TimedTuples:
        return (
            self
            if bool(mask.all())
            else TimedTuples(filter_columns(self.columns, mask), self.birth[mask], self.key[mask])
        )

    def between(self, since: int, until: int) -> TimedTuples:
        """Returns the tuples born in [since, until). The tuples must be ordered by birth."""
        begin, stop = np.searchsorted(self.birth, (since, until)).tolist()
        return TimedTuples(self.columns.slice(begin, stop - begin), self.birth[begin:stop], self.key[begin:stop])

    @staticmethod
    def concat(parts: Sequence[TimedTuples], schema: Schema) -> TimedTuples:
        parts = [part for part in parts if len(part)]
        if not parts:
            return TimedTuples(empty_columns(schema), no_ints(), no_ints())
        return TimedTuples(
            concat_columns([p.columns for p in parts]),
            concat_ints([p.birth for p in parts]),
            concat_ints([p.key for p in parts]),
        )


class _TimedPiece:
    """Tuples ordered by (key, birth). `keys` are all different; the tuples of keys[i] lie from begin[i] up to begin[i +
    1]."""

    def __init__(self, tuples: TimedTuples) -> None:
        if not bool(np.all(tuples.key[1:] >= tuples.key[:-1])):
            tuples = tuples.take(np.argsort(tuples.key, kind="stable"))
        self.tuples = tuples
        self.unique = strictly_ordered(tuples.key)
        self.first, self.last = int(tuples.birth.min()), int(tuples.birth.max())
        if self.unique:
            self.keys, self.begin = tuples.key, np.arange(len(tuples) + 1)
        else:
            starts = np.flatnonzero(np.concatenate(([True], tuples.key[1:] != tuples.key[:-1])))
            self.keys, self.begin = tuples.key[starts], np.append(starts, len(tuples))

    def __len__(self) -> int:
        return len(self.tuples)

    def older(self, birth: Ints, key: Ints, low: int, high: int) -> tuple[Ints, Ints]:
        """Returns pairs (index of the probe, position in the piece) of equal keys in which the kept tuple is older by
        at least `low` and less than `high`."""
        rank = np.searchsorted(self.keys, key)
        probe = np.flatnonzero(self.keys[np.minimum(rank, len(self.keys) - 1)] == key)
        rank, after, upto = rank[probe], birth[probe] - high + 1, birth[probe] - low + 1
        births = self.tuples.birth
        if self.unique:
            found = births[rank]
            inside = (found >= after) & (found < upto)
            return probe[inside], rank[inside]
        begin = first_from(births, self.begin[rank], self.begin[rank + 1], after)
        counts = first_from(births, begin, self.begin[rank + 1], upto) - begin
        return np.repeat(probe, counts), expand(begin, counts)


class TimedSide:
    """The tuples of one input of a sliced join."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._pieces: list[_TimedPiece] = []
        self._ahead: list[TimedTuples] = []  # those that the slowest slice has not passed, in the order of births
        self._oldest = BEFORE_TIME  # no slice asks for earlier births
        self._limit = 1024

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def add(self, tuples: TimedTuples) -> None:
        """Adds tuples in the order of births, none of them before those of earlier calls."""
        if not len(tuples):
            return
        self._ahead.append(tuples)
        parts, size = [tuples], len(tuples)
        while self._pieces and len(self._pieces[-1]) <= size * 2:
            parts.insert(
                0, self._needed(self._pieces.pop())
            )  # older first: a stable sort by key then leaves births in order
            size += len(parts[0])
        self._pieces.append(_TimedPiece(TimedTuples.concat(parts, self._schema)))

    def _needed(self, piece: _TimedPiece) -> TimedTuples:
        return piece.tuples if piece.first >= self._oldest else piece.tuples.filter(piece.tuples.birth >= self._oldest)

    def born(self, since: int, until: int) -> TimedTuples:
        """Returns the tuples born in [since, until). The slowest slice must not have passed them."""
        parts = [part for part in self._ahead if part.birth[-1] >= since and part.birth[0] < until]
        return TimedTuples.concat([part.between(since, until) for part in parts], self._schema)

    def milestones(self, since: int, until: int, size: int) -> list[int]:
        """Returns instants within (since, until) that cut the tuples born there into pieces of about `size`; none if
        there are not many more."""
        births = concat_ints([no_ints(), *(part.between(since, until).birth for part in self._ahead)])
        return [at for at in births[size::size].tolist() if at > since] if len(births) > 2 * size else []

    def older(self, probes: TimedTuples, low: int, high: int) -> list[tuple[Ints, TimedTuples]]:
        """Returns for each piece the indices of probes and, beside them, the kept tuples of equal keys that are older
        by [low, high)."""
        if not len(probes) or low >= high:
            return []
        earliest, latest = int(probes.birth.min()), int(probes.birth.max())
        pieces = [p for p in self._pieces if p.last > earliest - high and p.first <= latest - low]
        if not pieces:
            return []
        order = None if bool(np.all(probes.key[1:] >= probes.key[:-1])) else np.argsort(probes.key)
        key, birth = (probes.key, probes.birth) if order is None else (probes.key[order], probes.birth[order])
        pairs = []
        for piece in pieces:
            within = overlap(key, piece.keys)
            mine, found = (
                piece.older(birth[within], key[within], low, high)
                if within.start < within.stop
                else (no_ints(), no_ints())
            )
            if len(mine):
                place = mine + within.start
                pairs.append((place if order is None else order[place], piece.tuples.take(found)))
        return pairs

    def forget(self, oldest: int, passed: int) -> None:
        """Forgets births before `oldest`, for which no slice asks any more. The slowest slice has passed those before
        `passed`."""
        self._oldest = oldest
        while self._ahead and self._ahead[0].birth[0] < passed:
            rest = self._ahead[0].between(passed, FOREVER)
            self._ahead[:1] = [rest] if len(rest) else []
        self._pieces = [piece for piece in self._pieces if piece.last >= oldest]
        if (
            len(self) >= self._limit
        ):  # once the needless may outnumber the others, drop them: paid by the tuples added since
            kept = [self._needed(piece) for piece in self._pieces]
            self._pieces = [_TimedPiece(tuples) for tuples in kept if len(tuples)]
            self._limit = max(1024, 2 * len(self))

    def state(self) -> State:
        """Returns the tuples in the order of births. The slices' clocks determine which of them are ahead of a
        slice."""
        everything = TimedTuples.concat([self._needed(piece) for piece in self._pieces], self._schema)
        everything = everything.take(np.argsort(everything.birth, kind="stable"))
        return {"columns": everything.columns, "birth": everything.birth, "key": everything.key, "oldest": self._oldest}

    def load(self, state: State, passed: int) -> None:
        self._pieces, self._ahead, self._oldest = [], [], state["oldest"]
        self.add(TimedTuples(state["columns"], state["birth"], state["key"]))
        self.forget(self._oldest, passed)

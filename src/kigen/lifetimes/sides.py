"""One side of a join: the living tuples in pieces ordered by key, few and of growing size, so that probing costs a search a piece.

Adding a block may merge it with pieces of its own size or less, dropping the dead; so a tuple is moved O(log window) times in its life.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.alive import Chunk, State, expand
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, Fills, Ints, Mask, concat_ints, no_ints
from kigen.plan.types import Schema


@dataclass
class _Piece:
    chunk: Chunk  # ordered by key
    keys: Ints
    by_holder: Ints  # order by holder, of the tuples without a known death when the piece was made
    latest: int  # no tuple in it lives longer

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Matches:
    """Pairs of equal keys, left and right tuple side by side."""

    left: Chunk
    right: Chunk

    def __len__(self) -> int:
        return len(self.left)

    def swapped(self) -> Matches:
        return Matches(self.right, self.left)

    def overlap(self) -> Mask:
        return np.maximum(self.left.start, self.right.start) < np.minimum(self.left.end, self.right.end)


class Side:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._pieces: list[_Piece] = []
        self._now = BEFORE_TIME
        self._limit = 1024

    def __len__(self) -> int:
        return sum(len(p) for p in self._pieces)

    def add(self, chunk: Chunk, keys: Ints) -> None:
        if not len(chunk):
            return
        chunks, all_keys = [chunk], [keys]
        size = len(chunk)
        while self._pieces and len(self._pieces[-1]) <= size * 2:
            piece = self._pieces.pop()
            living = piece.chunk.end >= self._now
            kept = (piece.chunk, piece.keys) if bool(living.all()) else (piece.chunk.filter(living), piece.keys[living])
            chunks.append(kept[0])
            all_keys.append(kept[1])
            size += len(kept[1])
        self._pieces.append(self._piece(Chunk.concat(chunks, self._schema), concat_ints(all_keys)))

    @staticmethod
    def _piece(chunk: Chunk, keys: Ints) -> _Piece:
        if not bool(np.all(keys[1:] >= keys[:-1])):
            order = np.argsort(keys, kind="stable")
            chunk, keys = chunk.take(order), keys[order]
        else:
            chunk = Chunk(chunk.columns, chunk.start, chunk.end.copy(), chunk.holder)
        open_ended = np.flatnonzero(chunk.end == FOREVER)
        by_holder = open_ended[np.argsort(chunk.holder[open_ended], kind="stable")]
        return _Piece(chunk, keys, by_holder, int(chunk.end.max()))

    def fill(self, fills: Fills) -> None:
        if not len(fills):
            return
        fills = fills.sorted()
        for piece in self._pieces:
            if not len(piece.by_holder):
                continue
            holders = piece.chunk.holder[piece.by_holder]
            low = int(np.searchsorted(fills.holder, holders[0], side="left"))
            high = int(np.searchsorted(fills.holder, holders[-1], side="right"))
            if low >= high:
                continue
            begin = np.searchsorted(holders, fills.holder[low:high], side="left")
            counts = np.searchsorted(holders, fills.holder[low:high], side="right") - begin
            index = piece.by_holder[expand(begin, counts)]
            death = np.repeat(fills.end[low:high], counts)
            piece.chunk.end[index] = np.minimum(piece.chunk.end[index], death)
            if len(index) * 4 > len(holders):
                piece.by_holder = piece.by_holder[piece.chunk.end[piece.by_holder] == FOREVER]
                piece.latest = int(piece.chunk.end.max())

    def probe(self, chunk: Chunk, keys: Ints) -> Matches:
        """All pairs (given tuple, kept tuple) of equal keys whose lifetimes may overlap."""
        ours: list[Ints] = []
        theirs: list[Chunk] = []
        for piece in self._pieces if len(chunk) else []:
            begin = np.searchsorted(piece.keys, keys, side="left")
            counts = np.searchsorted(piece.keys, keys, side="right") - begin
            mine = np.repeat(np.arange(len(keys)), counts)
            found = expand(begin, counts)
            meet = (piece.chunk.start[found] <= chunk.end[mine]) & (piece.chunk.end[found] >= chunk.start[mine])
            mine, found = mine[meet], found[meet]
            if len(mine):
                ours.append(mine)
                theirs.append(piece.chunk.take(found))
        index = concat_ints(ours) if ours else no_ints()
        return Matches(chunk.take(index), Chunk.concat(theirs, self._schema))

    def expire(self, now: int) -> None:
        """Whole pieces of dead go at once; dead tuples among the living go when their piece is merged or mostly dead."""
        self._now = now
        kept: list[_Piece] = []
        for piece in self._pieces:
            if piece.latest < now:
                continue
            kept.append(piece)
        self._pieces = kept
        self._sweep(now)

    def _sweep(self, now: int) -> None:
        """Once the dead may outnumber the living, look, and drop them. The check is paid by the tuples added since."""
        total = len(self)
        if total < self._limit:
            return
        pieces = []
        for piece in self._pieces:
            living = piece.chunk.end >= now
            if not bool(living.all()):
                piece = self._piece(piece.chunk.filter(living), piece.keys[living]) if bool(living.any()) else None  # type: ignore[assignment]
            if piece is not None:
                pieces.append(piece)
        self._pieces = pieces
        self._limit = max(1024, 2 * len(self))

    def everything(self, fills: Fills) -> Chunk:
        """The living that are named in `fills`, with those deaths."""
        chunk = Chunk.concat([p.chunk.filter(p.chunk.end == FOREVER) for p in self._pieces], self._schema)
        fills = fills.sorted()
        if not len(fills):
            return Chunk.empty(self._schema)
        place = np.minimum(np.searchsorted(fills.holder, chunk.holder), len(fills) - 1)
        named = fills.holder[place] == chunk.holder
        chunk, place = chunk.filter(named), place[named]
        chunk.end = fills.end[place]
        return chunk

    def state(self) -> State:
        living = [(p.chunk.filter(m), p.keys[m]) for p in self._pieces for m in [p.chunk.end >= self._now]]
        keys = concat_ints([k for _, k in living]) if living else no_ints()
        return {"chunk": Chunk.concat([c for c, _ in living], self._schema).state(), "keys": keys, "now": self._now}

    def load(self, state: State) -> None:
        self._pieces = []
        self._now = state["now"]
        self.add(Chunk.load(state["chunk"]), state["keys"])

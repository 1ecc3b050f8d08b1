"""One side of a join: the living tuples in pieces ordered by key, few and of growing size, so that probing costs a search a piece.

Adding a block may merge it with pieces of its own size or less, dropping the dead; so a tuple is moved O(log window) times in its life.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.alive import Chunk, State, expand
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, Fills, Ints, Mask, concat_ints, no_ints
from kigen.lifetimes.search import consecutive, overlap, places, strictly_ordered
from kigen.plan.types import Schema


@dataclass
class _Piece:
    chunk: Chunk  # ordered by key
    keys: Ints
    unique: bool  # no key twice
    by_holder: Ints  # places of the tuples without a known death when the piece was made, by holder
    holders: Ints  # of those, ordered
    gapless: bool  # the holders count up one by one
    latest: int  # no tuple in it lives longer

    def __len__(self) -> int:
        return len(self.keys)


def _equal(keys: Ints, piece: _Piece) -> tuple[Ints, Ints]:
    """Pairs (place in `keys`, place in the piece) of equal keys; `keys` are ordered."""
    if not len(keys):
        return no_ints(), no_ints()
    begin = np.searchsorted(piece.keys, keys, side="left")
    if piece.unique:
        hit = np.flatnonzero(piece.keys[np.minimum(begin, len(piece) - 1)] == keys)
        return hit, begin[hit]
    counts = np.searchsorted(piece.keys, keys, side="right") - begin
    return np.repeat(np.arange(len(keys)), counts), expand(begin, counts)


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
            chunks.insert(0, kept[0])  # older first: keys that grow with time stay in order
            all_keys.insert(0, kept[1])
            size += len(kept[1])
        self._pieces.append(self._piece(Chunk.concat(chunks, self._schema), concat_ints(all_keys)))

    @staticmethod
    def _piece(chunk: Chunk, keys: Ints) -> _Piece:
        unique = strictly_ordered(keys)
        if unique or bool(np.all(keys[1:] >= keys[:-1])):
            chunk = Chunk(chunk.columns, chunk.start, chunk.end.copy(), chunk.holder)
        else:
            order = np.argsort(keys)
            chunk, keys = chunk.take(order), keys[order]
            unique = strictly_ordered(keys)
        by_holder = np.flatnonzero(chunk.end == FOREVER)
        holders = chunk.holder[by_holder]
        strict = strictly_ordered(holders)
        if not strict:
            order = np.argsort(holders)
            by_holder, holders = by_holder[order], holders[order]
            strict = strictly_ordered(holders)
        return _Piece(chunk, keys, unique, by_holder, holders, strict and consecutive(holders), int(chunk.end.max()))

    def fill(self, fills: Fills) -> None:
        if not len(fills):
            return
        fills = fills.sorted()
        for piece in self._pieces:
            within = overlap(fills.holder, piece.holders) if len(piece.holders) else slice(0, 0)
            if within.start < within.stop:
                self._fill_piece(piece, fills.holder[within], fills.end[within])

    @staticmethod
    def _fill_piece(piece: _Piece, holder: Ints, end: Ints) -> None:
        begin, counts = places(piece.holders, holder, piece.gapless)
        if not piece.gapless:
            begin, end = expand(begin, counts), np.repeat(end, counts)
        index = piece.by_holder[begin]
        piece.chunk.end[index] = np.minimum(piece.chunk.end[index], end)
        if len(index) * 4 > len(piece.holders):
            still = piece.chunk.end[piece.by_holder] == FOREVER
            piece.by_holder, piece.holders = piece.by_holder[still], piece.holders[still]
            piece.gapless = piece.gapless and consecutive(piece.holders)
            piece.latest = int(piece.chunk.end.max())

    def probe(self, chunk: Chunk, keys: Ints) -> Matches:
        """All pairs (given tuple, kept tuple) of equal keys whose lifetimes may overlap."""
        ours: list[Ints] = []
        theirs: list[Chunk] = []
        order = None if bool(np.all(keys[1:] >= keys[:-1])) else np.argsort(keys)
        sorted_keys = keys if order is None else keys[order]
        for piece in self._pieces if len(chunk) else []:
            within = overlap(sorted_keys, piece.keys)
            mine, found = _equal(sorted_keys[within], piece)
            mine = mine + within.start if order is None else order[mine + within.start]
            meet = (piece.chunk.start[found] <= chunk.end[mine]) & (piece.chunk.end[found] >= chunk.start[mine])
            if not bool(meet.all()):
                mine, found = mine[meet], found[meet]
            if len(mine):
                ours.append(mine)
                theirs.append(piece.chunk.take(found))
        index = concat_ints(ours) if ours else no_ints()
        return Matches(chunk.take(index), Chunk.concat(theirs, self._schema))

    def expire(self, now: int) -> None:
        """Whole pieces of dead go at once; dead tuples among the living go when their piece is merged or mostly dead."""
        self._now = now
        self._pieces = [piece for piece in self._pieces if piece.latest >= now]
        self._sweep(now)

    def _sweep(self, now: int) -> None:
        """Once the dead may outnumber the living, look, and drop them. The check is paid by the tuples added since."""
        if len(self) < self._limit:
            return
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            living = piece.chunk.end >= now
            if bool(living.all()):
                self._pieces.append(piece)
            elif bool(living.any()):
                self._pieces.append(self._piece(piece.chunk.filter(living), piece.keys[living]))
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

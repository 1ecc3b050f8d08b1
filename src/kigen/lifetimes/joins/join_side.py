"""One side of a join: the live tuples in pieces ordered by key and birth. The pieces are few and of growing size, and a
probe costs one search in each.

Adding a block may merge it with pieces of its own size or smaller, without their dead tuples; so a tuple is moved O(log
window) times in its life. No piece grows beyond what Arrow's 32-bit text offsets can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, Fills, Ints, concat_ints, no_ints
from kigen.lifetimes.chunks import Chunk, State
from kigen.lifetimes.joins.piece import Bound, Met, Piece, Probes, sortable
from kigen.lifetimes.sweeps.sorted_search import overlap
from kigen.plan.types import Schema

MOST_PAIRS = 1 << 20  # that are made at once
FEW_PAIRS = 1 << 10  # so many may always be made at once, whatever their size
MOST_BYTES = 1 << 28  # of the columns of pairs that are made at once
_PIECE_BYTES = 1 << 29  # limit of a piece: text offsets have 32 bits
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Comparing:
    """A condition between the sides: the kept tuple's `column` `op` the probing tuple's `probing`."""

    column: int
    op: str
    probing: int

    @staticmethod
    def of(left: int, op: str, right: int) -> tuple[Comparing, Comparing]:
        """Returns the condition for the left side, which right tuples probe, and the one for the right side."""
        return Comparing(left, op, right), Comparing(right, _FLIPPED[op], left)


@dataclass(frozen=True)
class Matches:
    """Pairs of equal keys whose lifetimes overlap, left and right tuples side by side."""

    left: Chunk
    right: Chunk

    def __len__(self) -> int:
        return len(self.left)

    def swapped(self) -> Matches:
        return Matches(self.right, self.left)


@dataclass(frozen=True)
class Found:
    """The candidates of probes in all pieces, before pairs are made. `order` maps probes, which are ordered by key, to
    tuples of the chunk."""

    chunk: Chunk
    order: Ints | None
    met: tuple[tuple[Piece, slice, Met], ...]

    @property
    def total(self) -> int:
        return sum(met.total for _, _, met in self.met)

    def per_probe(self) -> Ints:
        """Returns the number of candidates of each tuple of the chunk."""
        counts = np.zeros(len(self.chunk), dtype=np.int64)
        for _, within, met in self.met:
            counts[within] += met.counts
        if self.order is None:
            return counts
        placed = np.empty_like(counts)
        placed[self.order] = counts
        return placed


class JoinSide:
    """The live tuples of one input of a join."""

    def __init__(self, schema: Schema, comparing: Sequence[Comparing] = ()) -> None:
        self._schema, self._comparing = schema, tuple(comparing)
        self._pieces: list[Piece] = []
        self._now = BEFORE_TIME
        self._limit = 1024
        self.formed = 0  # pairs looked at; tests of the cost read it

    def __len__(self) -> int:
        return sum(len(p) for p in self._pieces)

    def add(self, chunk: Chunk, keys: Ints) -> None:
        if not len(chunk):
            return
        chunks, all_keys = [chunk], [keys]
        size = len(chunk)
        while (
            self._pieces and len(self._pieces[-1]) <= size * 2 and (size < FEW_PAIRS or _fit(chunks, self._pieces[-1]))
        ):
            piece = self._pieces.pop()
            living = piece.chunk.end >= self._now
            kept = (piece.chunk, piece.keys) if bool(living.all()) else (piece.chunk.filter(living), piece.keys[living])
            chunks.insert(0, kept[0])  # older tuples first: keys that grow with time stay ordered
            all_keys.insert(0, kept[1])
            size += len(kept[1])
        self._pieces.append(Piece(Chunk.concat(chunks, self._schema), concat_ints(all_keys)))

    def beside(self, chunk: Chunk, keys: Ints) -> JoinSide:
        """Returns a side like this one that has only the given tuples."""
        other = JoinSide(self._schema, self._comparing)
        other.add(chunk, keys)
        return other

    @property
    def exact(self) -> bool:
        """Whether a probe can count its partners without looking at each."""
        return all(piece.countable for piece in self._pieces)

    def fill(self, fills: Fills) -> None:
        if len(fills):
            fills = fills.sorted()
            for piece in self._pieces:
                piece.fill(fills)

    # --- probes ---------------------------------------------------------------------------------------------------

    def find(self, chunk: Chunk, keys: Ints, since: Ints, until: Ints) -> Found:
        """Finds the kept tuples that each given tuple meets: of equal key, born before `until`, dead after `since`."""
        if not len(chunk) or not self._pieces:
            return Found(chunk, None, ())
        order = None if bool(np.all(keys[1:] >= keys[:-1])) else np.argsort(keys, kind="stable")
        probes = Probes(keys, since, until, self._bounds(chunk.columns))
        probes = probes if order is None else probes.take(order)
        met = []
        for piece in self._pieces:
            within = overlap(probes.key, piece.keys)
            if within.start < within.stop:
                whole = within.stop - within.start == len(probes)
                mine = piece.meet(probes if whole else probes.take(within))
                if mine.total:
                    met.append((piece, within, mine))
        return Found(chunk, order, tuple(met))

    def _bounds(self, columns: pa.RecordBatch) -> tuple[Bound, ...]:
        return tuple(Bound(c.column, c.op, *sortable(columns.column(c.probing))) for c in self._comparing)

    def matches(self, found: Found) -> Iterator[Matches]:
        """Yields pairs (given tuple, kept tuple), a bounded number at once, unless a single tuple has more."""
        for piece, within, met in found.met:
            few = met.total <= FEW_PAIRS
            most = FEW_PAIRS if few else most_pairs(row_bytes(found.chunk) + row_bytes(piece.chunk))
            for begin, stop in _portions(met, most):
                mine, kept, formed = piece.pairs(met, begin, stop)
                self.formed += formed
                if len(mine):
                    mine = mine + within.start
                    yield Matches(
                        found.chunk.take(mine if found.order is None else found.order[mine]), piece.chunk.take(kept)
                    )

    @property
    def row_bytes(self) -> float:
        return max((row_bytes(piece.chunk) for piece in self._pieces), default=0.0)

    def probe(self, chunk: Chunk, keys: Ints, since: Ints, until: Ints) -> Iterator[Matches]:
        return self.matches(self.find(chunk, keys, since, until))

    # --- the dead -------------------------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        """Removes dead tuples. Pieces that are wholly dead go at once; dead tuples among live ones go when their piece
        is merged or mostly dead."""
        self._now = now
        self._pieces = [piece for piece in self._pieces if piece.latest >= now]
        self._sweep(now)

    def _sweep(self, now: int) -> None:
        """Removes dead tuples once they may outnumber the live ones. The tuples added since the last sweep pay for
        it."""
        if len(self) < self._limit:
            return
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            living = piece.chunk.end >= now
            if bool(living.all()):
                self._pieces.append(piece)
            elif bool(living.any()):
                self._pieces.append(Piece(piece.chunk.filter(living), piece.keys[living]))
        self._limit = max(1024, 2 * len(self))

    def everything(self, fills: Fills) -> tuple[Chunk, Ints]:
        """Returns the live tuples named in `fills`, with those deaths, and their keys."""
        open_ = [piece.chunk.end == FOREVER for piece in self._pieces]
        fills = fills.sorted()
        if not len(fills) or not open_:
            return Chunk.empty(self._schema), no_ints()
        chunk = Chunk.concat([p.chunk.filter(mask) for p, mask in zip(self._pieces, open_, strict=True)], self._schema)
        keys = concat_ints([p.keys[mask] for p, mask in zip(self._pieces, open_, strict=True)])
        place = np.minimum(np.searchsorted(fills.holder, chunk.holder), len(fills) - 1)
        named = fills.holder[place] == chunk.holder
        chunk = chunk.filter(named)
        chunk.end = fills.end[place[named]]
        return chunk, keys[named]

    def state(self) -> State:
        living = [(p.chunk.filter(m), p.keys[m]) for p in self._pieces for m in [p.chunk.end >= self._now]]
        return {"pieces": [{"chunk": chunk.state(), "keys": keys} for chunk, keys in living], "now": self._now}

    def load(self, state: State) -> None:
        self._pieces = []
        self._now = state["now"]
        for saved in state.get("pieces", [state]):  # older formats have one
            self.add(Chunk.load(saved["chunk"]), saved["keys"])


def row_bytes(chunk: Chunk) -> float:
    return float(chunk.columns.nbytes) / max(1, len(chunk))


def most_pairs(bytes_per_pair: float) -> int:
    """Returns how many pairs of this size may be made at once."""
    return min(MOST_PAIRS, max(FEW_PAIRS, int(MOST_BYTES / max(1.0, bytes_per_pair))))


def _fit(chunks: Sequence[Chunk], piece: Piece) -> bool:
    return int(sum(chunk.columns.nbytes for chunk in (*chunks, piece.chunk))) <= _PIECE_BYTES


def _portions(met: Met, most: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of probes with at most `most` candidates each, at least one probe per range."""
    if met.total <= most:
        yield 0, len(met.probes)
        return
    after = np.cumsum(met.counts)
    begin, before = 0, 0
    while begin < len(after):
        stop = max(begin + 1, int(np.searchsorted(after, before + most, side="right")))
        yield begin, stop
        begin, before = stop, int(after[stop - 1])

"""Decides where a join cuts a step: into stretches of time in each of which a bounded number of pairs is born.

A pair is born with its younger tuple, so each new tuple is charged with the older ones that it meets. Candidates are
counted by searching; no pair is made. Loads of one instant cannot be cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kigen.lifetimes.blocks import FOREVER, Ints
from kigen.lifetimes.chunks import Chunk
from kigen.lifetimes.joins.join_side import Found, JoinSide, row_bytes
from kigen.lifetimes.sweeps.time_cuts import even_cuts, ordered_bounds

Loads = Sequence[tuple[Ints, Ints]]  # instants, and how many rows each of them makes
_FEWEST = 64  # tuples per stretch, if pairs are only estimated; estimates are too high
_ESTIMATED = 4  # limit of estimated pairs per stretch, as a multiple of the most pairs


@dataclass(frozen=True)
class Keyed:
    """New tuples of one side, with their keys."""

    chunk: Chunk
    keys: Ints

    @property
    def row_bytes(self) -> float:
        return row_bytes(self.chunk)


def find(side: JoinSide, keyed: Keyed, before: int = FOREVER) -> Found:
    """Finds the tuples of the side that the given tuples meet, among those born before `before`."""
    chunk = keyed.chunk
    return side.find(chunk, keyed.keys, chunk.start, chunk.end if before == FOREVER else np.minimum(chunk.end, before))


def stretch_ends(sides: tuple[JoinSide, JoinSide], left: Keyed, right: Keyed, more: Loads, most: int) -> list[int]:
    """Returns instants between which at most about `most` rows are made. The new right tuples are in their side
    already, the new left tuples are not."""
    loads, fresh = [*more], sides[0].beside(left.chunk, left.keys)
    for mine, others, latest in ((left, (sides[1],), 1), (right, (sides[0], fresh), 0)):
        born = mine.chunk.start
        loads += [(born, side.find(mine.chunk, mine.keys, born, born + latest).per_probe()) for side in others]
    at, rows = np.concatenate([a for a, _ in loads]), np.concatenate([r for _, r in loads])
    if all(side.exact for side in (*sides, fresh)):
        return even_cuts(at, rows, most)
    fewest = int(rows.sum()) * _FEWEST // max(1, len(left.keys) + len(right.keys))
    return even_cuts(at, rows, max(most, min(fewest, _ESTIMATED * most)))


def cut_keyed(keyed: Keyed, times: Sequence[int]) -> list[Keyed]:
    """Cuts tuples by their births."""
    order, bounds = ordered_bounds(keyed.chunk.start, times)
    chunk, keys = (keyed.chunk, keyed.keys) if order is None else (keyed.chunk.take(order), keyed.keys[order])
    return [Keyed(chunk.cut(begin, stop), keys[begin:stop]) for begin, stop in pairwise(bounds)]

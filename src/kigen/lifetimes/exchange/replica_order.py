"""Orders the output of operators, so that two replicas of a node that take the same steps give the same rows with the
same ids.

Within a step a relation has no order. Operators give tuples in the order of their own data structures, which depends on
when state was last saved and loaded. Replicas of one node must agree row by row, so this module orders tuples by their
times, their open holder and their content. Tuples that are equal in all of these are interchangeable. Cost: one sort
per step and one hash per tuple, only on nodes with a standby.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Ints
from kigen.lifetimes.chunks import Chunk
from kigen.lifetimes.keys.row_keys import row_keys


def ordered(block: Block) -> Block:
    """Orders the tuples and fills of a block. A tuple with a known death loses its holder."""
    holder = _open(block.holder, block.end)
    content = row_keys(block.columns, len(block), range(block.columns.num_columns))
    order = np.lexsort((content, holder, block.end, block.start))
    return Block(block.columns, block.start, block.end, holder, ordered_fills(block.fills)).take(order)


def ordered_fills(fills: Fills) -> Fills:
    if len(fills) < 2:
        return fills
    order = np.lexsort((fills.holder, fills.end))
    return Fills(fills.holder[order], fills.end[order])


def pair_order(left: Chunk, right: Chunk) -> Ints:
    """Returns the order of matched tuples, given side by side."""
    keys: list[Ints] = []
    for chunk in (right, left):
        keys.append(row_keys(chunk.columns, len(chunk), range(chunk.columns.num_columns)))
        keys += [_open(chunk.holder, chunk.end), chunk.end, chunk.start]
    return np.lexsort(keys)


def _open(holder: Ints, end: Ints) -> Ints:
    return np.where(end == FOREVER, holder, NO_HOLDER)

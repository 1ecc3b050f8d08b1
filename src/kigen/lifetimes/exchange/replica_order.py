"""One order for what operators leave unordered, so that two replicas of a node, fed the same steps, give the same rows
with the same ids.

Within a step a relation has no order, and operators give tuples as their own structures hold them, which depend on when
state was last saved and loaded. Replicas of one node must agree row by row: here tuples are ordered by their times,
their open holder, and their content; equal ones cannot be told apart. Cost: one sort a step and a hash a tuple, paid by
nodes with a standby only.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Ints
from kigen.lifetimes.keys.row_keys import row_keys
from kigen.lifetimes.live_tuples import Chunk


def ordered(block: Block) -> Block:
    """The same news in the one order; beside a known death no holder."""
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
    """Of matched tuples side by side."""
    keys: list[Ints] = []
    for chunk in (right, left):
        keys.append(row_keys(chunk.columns, len(chunk), range(chunk.columns.num_columns)))
        keys += [_open(chunk.holder, chunk.end), chunk.end, chunk.start]
    return np.lexsort(keys)


def _open(holder: Ints, end: Ints) -> Ints:
    return np.where(end == FOREVER, holder, NO_HOLDER)

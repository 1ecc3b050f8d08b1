"""Cuts the messages of one step at instants, so that one step can run as several shorter ones.

Operators give the same relation however time is cut into steps. So a step that would produce too much at once is run in
stretches. Cost: a sort of the message by time, unless it is sorted already; the parts are slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Block, Fills, Ints, Signed, StreamBlock, take_columns


def cut(message: Any, times: Sequence[int]) -> list[Any]:
    """Returns the part before times[0], the part between times[0] and times[1], and so on; the last part has the
    rest."""
    if isinstance(message, Block):
        order, bounds = ordered_bounds(message.start, times)
        block = message if order is None else message.take(order)
        fills = zip(_cut_fills(message.fills, times), pairwise(bounds), strict=True)
        return [_block_part(block, begin, stop, part) for part, (begin, stop) in fills]
    order, bounds = ordered_bounds(message.at, times)
    if isinstance(message, Signed):
        parts = (message.at, message.sign, message.id)
        columns, (at, sign, ids) = _ordered(message.columns, parts, order)
        return [Signed(columns.slice(b, s - b), at[b:s], sign[b:s], ids[b:s]) for b, s in pairwise(bounds)]
    assert isinstance(message, StreamBlock)
    columns, (at, sequence) = _ordered(message.columns, (message.at, message.sequence), order)
    return [StreamBlock(columns.slice(b, s - b), at[b:s], sequence[b:s]) for b, s in pairwise(bounds)]


def _block_part(block: Block, begin: int, stop: int, fills: Fills) -> Block:
    part = slice(begin, stop)
    return Block(
        block.columns.slice(begin, stop - begin), block.start[part], block.end[part], block.holder[part], fills
    )


def _cut_fills(fills: Fills, times: Sequence[int]) -> list[Fills]:
    order, bounds = ordered_bounds(fills.end, times)
    holder, end = (fills.holder, fills.end) if order is None else (fills.holder[order], fills.end[order])
    return [Fills(holder[b:s], end[b:s]) for b, s in pairwise(bounds)]


def _ordered(columns: Any, arrays: Iterable[Ints], order: Ints | None) -> tuple[Any, list[Ints]]:
    if order is None:
        return columns, list(arrays)
    return take_columns(columns, order), [array[order] for array in arrays]


def ordered_bounds(at: Ints, times: Sequence[int]) -> tuple[Ints | None, list[int]]:
    """Returns an order by time (None if the times are ordered already), and the bounds of the parts."""
    order = None if bool(np.all(at[1:] >= at[:-1])) else np.argsort(at, kind="stable")
    places = np.searchsorted(at if order is None else at[order], np.array(times, dtype=np.int64)).tolist()
    return order, [0, *places, len(at)]


def even_cuts(at: Ints, loads: Ints, most: int) -> list[int]:
    """Returns instants that cut the loads into stretches of at most `most`, as far as the loads of one instant allow.
    The first and the last instant are left out."""
    order = np.argsort(at, kind="stable")
    at, after = at[order], np.cumsum(loads[order])
    cuts: list[int] = []
    done = 0
    while done < after[-1]:
        over = int(np.searchsorted(after, done + most, side="right"))
        if over >= len(at):
            break
        first = int(np.searchsorted(at, at[over], side="left"))
        if first == 0 or (cuts and int(at[first]) <= cuts[-1]):  # one instant alone exceeds the limit
            first = int(np.searchsorted(at, at[over], side="right"))
            if first >= len(at):
                break
        cuts.append(int(at[first]))
        done = int(after[first - 1])
    return cuts

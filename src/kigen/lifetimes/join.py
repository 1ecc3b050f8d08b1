"""The join of two relations: pairs of equal keys whose lifetimes overlap, alive on the overlap.

Each side is kept in pieces ordered by key; births probe the other side. Direct method: a pair's death is the earlier of the two; while
that is not settled the pair carries a holder of its own, found again when either tuple's holder is filled or time passes the bound.
Negative-tuple method: deaths probe the other side as births do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.alive import Chunk, Expiring, State, Waiting
from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, NO_HOLDER, Block, Fills, Ints, Mask, Signed
from kigen.lifetimes.canonical import pair_order
from kigen.lifetimes.expressions import has_null, is_true, mix, row_keys
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.sides import Matches, Side
from kigen.plan.nodes import Join
from kigen.plan.types import arrow_schema


class Pairing(Operator):
    """What every join does with tuples and pairs of them, however it keeps its sides."""

    def __init__(self, node: Join) -> None:
        self.node = node
        self._schema = arrow_schema(node.schema)
        self._keys = (node.left_keys, node.right_keys)

    def _keyed(self, block: Block, side: int) -> tuple[Chunk, Ints]:
        """The tuples that can match at all, with their keys."""
        keys = self._keys[side]
        null = has_null(block.columns, keys)
        if bool(null.any()):
            block = block.filter(~null)
        return Chunk(block.columns, block.start, block.end, block.holder), row_keys(block.columns, len(block), keys)

    def _columns(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(left.columns + right.columns, schema=self._schema)

    def _passes(self, columns: pa.RecordBatch, rows: int) -> Mask | None:
        if self.node.residual is None or not rows:
            return None
        return is_true(columns, rows, self.node.residual)


class JoinBase(Pairing):
    def __init__(self, node: Join, number: int) -> None:
        super().__init__(node)
        self._number = number
        self._sides = (Side(node.left.schema), Side(node.right.schema))

    def _born(self, left: Block, right: Block) -> list[Matches]:
        """Pairs with at least one new tuple. Both sides are taken in; what died stays until `expire`."""
        new_left, left_keys = self._keyed(left, 0)
        new_right, right_keys = self._keyed(right, 1)
        self._sides[0].fill(left.fills)
        self._sides[1].fill(right.fills)
        old_left = self._sides[0].probe(new_right, right_keys).swapped()
        self._sides[1].add(new_right, right_keys)
        all_right = self._sides[1].probe(new_left, left_keys)
        self._sides[0].add(new_left, left_keys)
        return [m for m in (old_left, all_right) if len(m)]

    @property
    def held(self) -> int:
        return sum(len(side) for side in self._sides)

    def state(self) -> State:
        return {"sides": [side.state() for side in self._sides]}

    def load(self, state: State) -> None:
        for side, saved in zip(self._sides, state["sides"], strict=True):
            side.load(saved)


class DirectJoin(JoinBase):
    def __init__(self, node: Join, number: int, replicated: bool = False) -> None:
        super().__init__(node, number)
        self._replicated = replicated
        self._next_holder = number << HOLDER_BITS
        # pairs without a settled death, found by the holder of their left or right tuple, or by their bound; `start` is the pair's holder
        self._by_holder = (Waiting(()), Waiting(()))
        self._by_bound = Expiring(())

    def step(self, inputs: list[Message], now: int) -> Message:
        left, right = inputs
        fills = self._settle(left.fills, right.fills, now)
        blocks = [b for b in (self._pairs(m, now) for m in self._born(left, right)) if len(b)]
        for side in self._sides:
            side.expire(now)
        result = Block.concat(blocks) if blocks else Block.empty(self.node.schema)
        return Block(result.columns, result.start, result.end, result.holder, fills)

    def _settle(self, left: Fills, right: Fills, now: int) -> Fills:
        """Deaths of earlier pairs. A pair found twice gives two fills of one holder; the earlier counts."""
        found = [self._by_holder[0].fill(left), self._by_holder[1].fill(right), self._by_bound.pop(now)]
        return Fills.concat([Fills(chunk.start, chunk.end) for chunk in found]).sorted()

    def _pairs(self, matches: Matches, now: int) -> Block:
        left, right = matches.left, matches.right
        if self._replicated:
            order = pair_order(left, right)
            left, right = left.take(order), right.take(order)
        start = np.maximum(left.start, right.start)
        bound = np.minimum(left.end, right.end)
        columns = self._columns(left.columns, right.columns)
        block = Block(columns, start, bound, np.full(len(start), NO_HOLDER), Fills.none())
        unsettled = self._unsettled(left, right, bound, now)
        keep = start < bound
        passes = self._passes(columns, len(start))
        if passes is not None:
            keep &= passes
        waiting = keep & unsettled
        if bool(waiting.any()):
            self._wait(block, left, right, bound, waiting)
        return block.filter(keep)

    @staticmethod
    def _unsettled(left: Chunk, right: Chunk, bound: Ints, now: int) -> Mask:
        open_left = (left.end == FOREVER) & (left.holder != NO_HOLDER)
        open_right = (right.end == FOREVER) & (right.holder != NO_HOLDER)
        return np.asarray((open_left | open_right) & (bound >= now))

    def _wait(self, block: Block, left: Chunk, right: Chunk, bound: Ints, waiting: Mask) -> None:
        index = np.flatnonzero(waiting)
        holders = np.arange(self._next_holder, self._next_holder + len(index))
        self._next_holder += len(index)
        block.holder[index] = holders
        block.end[index] = FOREVER
        for side, chunk in enumerate((left, right)):
            theirs = chunk.holder[index]
            is_open = (chunk.end[index] == FOREVER) & (theirs != NO_HOLDER)
            self._by_holder[side].add(_pending(holders[is_open], np.full(int(is_open.sum()), FOREVER), theirs[is_open]))
        limits = np.minimum(left.end[index], right.end[index])
        bounded = limits != FOREVER
        self._by_bound.add(_pending(holders[bounded], limits[bounded], holders[bounded]))

    @property
    def next_event(self) -> int:
        return FOREVER  # a pair's death was told when the pair was made

    @property
    def held(self) -> int:
        return super().held + sum(len(w) for w in self._by_holder) + len(self._by_bound)

    def state(self) -> State:
        waiting = [Chunk.concat(w.chunks(), ()).state() for w in self._by_holder]
        bound = Chunk.concat(self._by_bound.chunks(), ()).state()
        return {**super().state(), "waiting": waiting, "bound": bound, "next": self._next_holder}

    def load(self, state: State) -> None:
        super().load(state)
        self._by_holder, self._by_bound = (Waiting(()), Waiting(())), Expiring(())
        for waiting, saved in zip(self._by_holder, state["waiting"], strict=True):
            waiting.add(Chunk.load(saved))
        self._by_bound.add(Chunk.load(state["bound"]))
        self._next_holder = state["next"]


def _pending(pair: Ints, end: Ints, holder: Ints) -> Chunk:
    return Chunk(Chunk.empty(()).columns, pair, end, holder)


class NegativeJoin(JoinBase):
    def step(self, inputs: list[Message], now: int) -> Message:
        left, right = inputs
        births = self._born(left.as_block(), right.as_block())
        parts = [self._message(m, np.maximum(m.left.start, m.right.start), 1, m.overlap()) for m in births]
        dead_left, left_keys = self._keyed(_deaths(left), 0)
        dead_right, right_keys = self._keyed(_deaths(right), 1)
        by_left = self._sides[1].probe(dead_left, left_keys)
        by_right = self._sides[0].probe(dead_right, right_keys).swapped()
        # a dying tuple ends every pair whose other tuple was born before and dies no earlier; of two that die at once the left one tells
        at = by_left.left.start
        parts.append(self._message(by_left, at, -1, (by_left.right.start < at) & (by_left.right.end >= at)))
        at = by_right.right.start
        parts.append(self._message(by_right, at, -1, (by_right.left.start < at) & (by_right.left.end > at)))
        for side in self._sides:
            side.expire(now)
        return Signed.concat(parts)

    def _message(self, matches: Matches, at: Ints, sign: int, keep: Mask) -> Signed:
        columns = self._columns(matches.left.columns, matches.right.columns)
        ids = mix(matches.left.holder, matches.right.holder, self._number)
        message = Signed(columns, at, np.full(len(at), sign, dtype=np.int64), ids).filter(keep)
        passes = self._passes(message.columns, len(message))
        return message if passes is None else message.filter(passes)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        """Pairs of two tuples whose deaths are both settled end with the earlier."""
        left, right = (side.everything(fills) for side, fills in zip(self._sides, inputs, strict=True))
        other = Side(self.node.right.schema)
        other.add(*self._keyed_chunk(right, 1))
        matches = other.probe(*self._keyed_chunk(left, 0))
        ids = mix(matches.left.holder, matches.right.holder, self._number)
        return Fills(ids, np.minimum(matches.left.end, matches.right.end))

    def _keyed_chunk(self, chunk: Chunk, side: int) -> tuple[Chunk, Ints]:
        return chunk, row_keys(chunk.columns, len(chunk), self._keys[side])


def _deaths(message: Signed) -> Block:
    """The negative tuples alone, each as an instant."""
    dead = message.filter(message.sign < 0)
    return Block(dead.columns, dead.at, dead.at, dead.id, Fills.none())

"""The join of two relations: pairs of equal keys whose lifetimes overlap. A pair lives during the overlap.

Each side is kept in pieces ordered by key and birth. Births probe the other side and meet only tuples that are alive at
the same time. In the direct method a pair dies with the first of its two tuples. While that death is not settled, the
pair carries a holder of its own; it is found again when the holder of either tuple is filled or when time passes the
bound. In the negative-tuple method deaths probe the other side as births do.

A step that would make very many pairs runs in stretches of time (`pieces`), so that the operators above see the pairs
in portions. Cost: O((tuples + pairs) log window) per step, where pairs are those of equal keys and overlapping
lifetimes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, NO_HOLDER, Block, Fills, Ints, Mask, Signed
from kigen.lifetimes.chunks import Chunk, State
from kigen.lifetimes.exchange.replica_order import pair_order
from kigen.lifetimes.joins.join_side import FEW_PAIRS, Comparing, Found, JoinSide, Matches, most_pairs
from kigen.lifetimes.joins.pairing import JoinScope, Pairing, joined_columns
from kigen.lifetimes.joins.stretches import Keyed, Loads, cut_keyed, find, stretch_ends
from kigen.lifetimes.keys.row_keys import mix, row_keys
from kigen.lifetimes.live_tuples import Expiring, Waiting
from kigen.lifetimes.operator import Message
from kigen.lifetimes.operator_spec import Columns, OperatorContext, OperatorSpec
from kigen.lifetimes.sweeps.time_cuts import cut
from kigen.plan.logical import Join


class JoinBase(Pairing):
    """Base of joins: keeps both sides and finds the pairs of a step. `whole`: a step is never cut."""

    def __init__(self, node: Join, number: int, scope: JoinScope | None = None, whole: bool = False) -> None:
        super().__init__(node, scope)
        self._number = number
        self._whole = whole
        comparing = [
            Comparing.of(self._kept[0].index(c.left), c.op, self._kept[1].index(c.right)) for c in node.comparisons
        ]
        of_left, of_right = [a for a, _ in comparing], [b for _, b in comparing]
        self._sides = (JoinSide(self._kept_schemas[0], of_left), JoinSide(self._kept_schemas[1], of_right))

    def _stretches(
        self, left: Block, right: Block, now: int, more: Loads = ()
    ) -> Iterator[tuple[int, Iterator[Matches]]]:
        """Yields the step in stretches of time: until when each one goes, and the pairs born in it, which must be taken
        before the next stretch. Adds the new tuples to both sides; dead tuples stay until `_expire`. `more` are other
        rows that the step makes."""
        new_left, new_right = self._keyed(left.without_ghosts(), 0), self._keyed(right.without_ghosts(), 1)
        self._sides[0].fill(left.fills)
        self._sides[1].fill(right.fills)
        by_right = find(self._sides[0], new_right)
        self._sides[1].add(new_right.chunk, new_right.keys)
        by_left = find(self._sides[1], new_left)
        total = by_right.total + by_left.total + sum(int(rows.sum()) for _, rows in more)
        most = most_pairs(self._row_bytes(new_left, new_right)) if total > FEW_PAIRS else FEW_PAIRS
        if self._whole or total <= most:
            yield now, self._pairs_of(by_right, by_left, new_left)
            return
        ends = stretch_ends(self._sides, new_left, new_right, more, most)
        for until, left_part, right_part in zip(
            [*ends, now], cut_keyed(new_left, ends), cut_keyed(new_right, ends), strict=True
        ):
            by_right = find(self._sides[0], right_part)
            yield until, self._pairs_of(by_right, find(self._sides[1], left_part, until), left_part)

    def _row_bytes(self, *new: Keyed) -> float:
        return sum(max(side.row_bytes, keyed.row_bytes) for side, keyed in zip(self._sides, new, strict=True))

    def _pairs_of(self, by_right: Found, by_left: Found, left: Keyed) -> Iterator[Matches]:
        """Yields new right tuples with tuples of the left side, then new left tuples with tuples of the right side,
        which already has the new ones."""
        yield from (matches.swapped() for matches in self._sides[0].matches(by_right))
        yield from self._sides[1].matches(by_left)
        self._sides[0].add(left.chunk, left.keys)

    def _expire(self, now: int) -> None:
        for side in self._sides:
            side.expire(now)

    @property
    def formed(self) -> int:
        """Number of pairs looked at so far."""
        return sum(side.formed for side in self._sides)

    @property
    def held(self) -> int:
        return sum(len(side) for side in self._sides)

    @property
    def kept_of_inputs(self) -> tuple[JoinSide, ...]:
        return self._sides

    def state(self) -> State:
        return {"sides": [side.state() for side in self._sides]}

    def load(self, state: State) -> None:
        for number, (side, saved) in enumerate(zip(self._sides, state["sides"], strict=True)):
            for piece in saved.get("pieces", [saved]):  # older formats have one piece with all columns
                piece["chunk"]["columns"] = self._narrow(piece["chunk"]["columns"], number)
                piece["keys"] = self._saved_keys(piece, number)
            side.load(saved)

    def _saved_keys(self, piece: State, side: int) -> Ints:
        """Returns the keys of a saved piece. Keys that are not column values are computed again, because they may have
        been made with another secret."""
        if not self._confirmed:
            keys: Ints = piece["keys"]
            return keys
        places = [self._kept[side].index(k) for k in self._keys[side]]
        return row_keys(piece["chunk"]["columns"], len(piece["chunk"]["start"]), places, self._secret)


class DirectJoin(JoinBase):
    """The join of the direct method."""

    def __init__(self, node: Join, number: int, scope: JoinScope | None = None, replicated: bool = False) -> None:
        # Where a step is cut depends on the layout of state, and replicas must agree.
        super().__init__(node, number, scope, whole=replicated)
        self._replicated = replicated
        self._next_holder = number << HOLDER_BITS
        # Pairs without a settled death, found by the holder of their left or right tuple, or by their bound. `start` is
        # the pair's holder.
        self._by_holder = (Waiting(()), Waiting(()))
        self._by_bound = Expiring(())

    def pieces(self, inputs: list[Message], now: int) -> Iterator[tuple[int, Message]]:
        # Sides and waiting pairs need the fills in order: they are sorted once.
        left, right = (replace(block, fills=block.fills.sorted()) if len(block.fills) else block for block in inputs)
        settled = Block.empty(self.node.schema, self._settle(left.fills, right.fills, now))
        for until, found in self._stretches(left, right, now):
            matches = self._in_one_order(found) if self._replicated else found
            blocks = [b for b in (self._pairs(m, now) for m in matches) if len(b)]
            self._expire(until)
            if until < now:
                before, settled = cut(settled, [until])
            else:
                before = settled
            yield until, Block.concat([before, *blocks])

    def _in_one_order(self, found: Iterator[Matches]) -> Iterator[Matches]:
        everything = list(found)
        left = Chunk.concat([m.left for m in everything], self._kept_schemas[0])
        right = Chunk.concat([m.right for m in everything], self._kept_schemas[1])
        if len(left):
            order = pair_order(left, right)
            yield Matches(left.take(order), right.take(order))

    def _settle(self, left: Fills, right: Fills, now: int) -> Fills:
        """Returns the deaths of earlier pairs. A pair that is found twice gives two fills of one holder; the earlier
        one counts."""
        found = [self._by_holder[0].fill(left), self._by_holder[1].fill(right), self._by_bound.pop(now)]
        return Fills.concat([Fills(chunk.start, chunk.end) for chunk in found]).sorted()

    def _pairs(self, matches: Matches, now: int) -> Block:
        left, right = matches.left, matches.right
        start = np.maximum(left.start, right.start)
        bound = np.minimum(left.end, right.end)
        columns = self._columns(left.columns, right.columns, len(start))
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
        return FOREVER  # a known death of a pair was given out with the pair

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
    """The join of the negative-tuple method."""

    hands_on_ends = True

    def pieces(self, inputs: list[Message], now: int) -> Iterator[tuple[int, Message]]:
        left, right = inputs
        dead = _deaths(left), _deaths(right)
        more = [
            (found.chunk.start, found.per_probe()) for found in (self._widowed(1, dead[0]), self._widowed(0, dead[1]))
        ]
        for until, found in self._stretches(left.as_block(), right.as_block(), now, more):
            births = [self._message(m, np.maximum(m.left.start, m.right.start), 1) for m in found]
            if until < now:
                parts, dead = zip(*(cut(each, [until]) for each in dead), strict=True)
            else:
                parts = dead
            deaths = [self._message(m, m.left.start, -1) for m in self._sides[1].matches(self._widowed(1, parts[0]))]
            deaths += [
                self._message(m.swapped(), m.left.start, -1) for m in self._sides[0].matches(self._widowed(0, parts[1]))
            ]
            self._expire(until)
            yield until, Signed.concat([Signed.empty(self.node.schema), *births, *deaths])

    def _widowed(self, side: int, dead: Block) -> Found:
        """Finds the tuples of `side` whose pair with a dying tuple ends: born before, and dying no earlier. If both die
        at the same instant, the left one ends the pair."""
        keyed = self._keyed(dead, 1 - side)
        at = keyed.chunk.start
        return self._sides[side].find(keyed.chunk, keyed.keys, at - 1 if side else at, at)

    def _message(self, matches: Matches, at: Ints, sign: int) -> Signed:
        columns = self._columns(matches.left.columns, matches.right.columns, len(matches))
        ids = mix(matches.left.holder, matches.right.holder, self._number)
        message = Signed(columns, at, np.full(len(at), sign, dtype=np.int64), ids)
        passes = self._passes(message.columns, len(message))
        return message if passes is None else message.filter(passes)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        """Returns the pairs whose tuples both have settled deaths; a pair ends with the earlier one."""
        left, right = (Keyed(*side.everything(fills)) for side, fills in zip(self._sides, inputs, strict=True))
        other = self._sides[1].beside(right.chunk, right.keys)
        found = find(other, left)
        return Fills.concat(
            [
                Fills(mix(m.left.holder, m.right.holder, self._number), np.minimum(m.left.end, m.right.end))
                for m in other.matches(found)
            ]
        )


def _deaths(message: Signed) -> Block:
    """Returns the negative tuples alone, each as an instant."""
    dead = message.filter(message.sign < 0)
    return Block(dead.columns, dead.at, dead.at, dead.id, Fills.none())


def _build(node: Join, task: OperatorContext) -> JoinBase:
    scope = JoinScope(task.needed, task.secret)
    if task.signed:
        return NegativeJoin(node, task.number, scope)
    return DirectJoin(node, task.number, scope, task.replicated)


def _needs(node: Join, needed: Columns) -> list[Columns]:
    width = len(node.left.schema)
    both = needed | joined_columns(node)
    left = {c for c in both if c < width} | set(node.left_keys)
    return [left, {c - width for c in both if c >= width} | set(node.right_keys)]


JOIN = OperatorSpec(Join, _build, _needs)

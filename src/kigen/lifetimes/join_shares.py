"""What one query takes of a shared join: the pairs that its windows hold, each with the death that they give it.

RANGE: a pair dies when the first of its tuples does, known at once, so the direct method keeps nothing here. ROWS: it dies when a row
pushes either tuple out; until then the pair carries a holder, and waits under the numbers of both its tuples. Negative tuples: the pairs
alive are kept and sent again when they die; the join itself does not work twice. Cost: a few operations a pair and query.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.alive import Alive, Chunk, State, Waiting
from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, NO_HOLDER, Block, Fills, Ints, empty_columns
from kigen.lifetimes.negatives import births_and_deaths
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.shared_join import Arrivals, Pairs
from kigen.plan.nodes import WindowKind
from kigen.plan.shared_join import JoinShare, window_below

_NUMBERS = 1 << HOLDER_BITS


class JoinShareOperator(Operator):
    def __init__(self, node: JoinShare, number: int, signed: bool) -> None:
        self.node = node
        self._place = node.child.windows.index(node.sizes)
        self._by_time = window_below(node.child.join.left).kind is WindowKind.RANGE
        self._first, self._next = number << HOLDER_BITS, 0
        self._waiting = (Waiting(()), Waiting(()))  # ROWS: pairs by the number of their left or right tuple; `start` is the pair's holder
        self._alive = Alive(node.schema) if signed else None

    def step(self, inputs: list[Message], now: int) -> Message:
        whole: Pairs = inputs[0]
        pairs = whole.held_by(self._place, self.node.sizes)
        block = self._by_range(pairs) if self._by_time else self._by_rows(pairs)
        return block if self._alive is None else births_and_deaths(self._alive, block, now)

    def _by_range(self, pairs: Pairs) -> Block:
        end = np.minimum(pairs.marks[0] + self.node.sizes[0], pairs.marks[1] + self.node.sizes[1])
        holder = np.full(len(pairs), NO_HOLDER) if self._alive is None else self._holders(len(pairs))
        return Block(pairs.columns, pairs.start, end, holder, Fills.none())

    def _by_rows(self, pairs: Pairs) -> Block:
        sizes = self.node.sizes
        fills = self._settle(pairs)
        end = np.minimum(*(a.time_of(mark + n) for a, mark, n in zip(pairs.arrivals, pairs.marks, sizes, strict=True)))
        holder = self._holders(len(pairs))
        waits = end == FOREVER
        count = int(waits.sum())
        for waiting, mark in zip(self._waiting, pairs.marks, strict=True):
            waiting.add(Chunk(empty_columns(()), holder[waits], np.full(count, FOREVER), mark[waits]))
        return Block(pairs.columns, pairs.start, end, holder, fills)

    def _settle(self, pairs: Pairs) -> Fills:
        """Deaths of earlier pairs. A pair found twice gives two fills of one holder; the earlier counts."""
        found = [w.fill(_pushed_out(a, n)) for w, a, n in zip(self._waiting, pairs.arrivals, self.node.sizes, strict=True)]
        return Fills.concat([Fills(chunk.start, chunk.end) for chunk in found]).sorted()

    def _holders(self, count: int) -> Ints:
        """New ones; they begin again when they run out, long after the first are dead."""
        numbers = np.arange(self._next, self._next + count)
        self._next = (self._next + count) % _NUMBERS
        return self._first + (numbers if self._next >= count else numbers % _NUMBERS)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        if self._alive is None:
            return Fills.none()
        return Fills.concat([Fills(c.holder, c.end) for c in self._alive.expiring.chunks()])

    @property
    def next_event(self) -> int:
        return FOREVER if self._alive is None else self._alive.next_death

    @property
    def held(self) -> int:
        return sum(len(w) for w in self._waiting) + (0 if self._alive is None else len(self._alive))

    def state(self) -> State:
        waiting = [Chunk.concat(w.chunks(), ()).state() for w in self._waiting]
        return {"waiting": waiting, "next": self._next, "alive": None if self._alive is None else self._alive.state()}

    def load(self, state: State) -> None:
        self._next = state["next"]
        self._waiting = (Waiting(()), Waiting(()))
        for waiting, saved in zip(self._waiting, state["waiting"], strict=True):
            waiting.add(Chunk.load(saved))
        if self._alive is not None:
            self._alive.load(state["alive"])


def _pushed_out(arrivals: Arrivals, size: int) -> Fills:
    """Tuples of earlier steps that the rows of this one push out of a window of `size`, and when."""
    numbers = np.arange(arrivals.first, arrivals.first + min(size, len(arrivals.at))) - size
    known = numbers >= 0
    return Fills(numbers[known], arrivals.at[: len(numbers)][known])

"""One query's share of a shared join: the pairs that its windows hold, each with the death that the windows give it.

RANGE: a pair dies when the first of its tuples does, which is known at once. ROWS: a pair dies when a row pushes either
tuple out. Until then it carries its own number as holder, and the join reports which pairs lost a tuple. So the direct
method keeps no state here. Negative tuples: live pairs are kept and sent again when they die; the join itself does not
run twice. Cost: a few operations per pair and query.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, NO_HOLDER, Block, Fills, Ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.joins.open_pairs import StepArrivals
from kigen.lifetimes.joins.shared_join import Pairs
from kigen.lifetimes.live_tuples import LiveTuples
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorSpec, same_columns
from kigen.lifetimes.windows.negatives import births_and_deaths
from kigen.plan.logical import WindowKind
from kigen.plan.shared_joins.share_nodes import JoinShare, window_below


class JoinShareOperator(Operator):
    """Gives the pairs of one pair of window sizes."""

    def __init__(self, node: JoinShare, number: int, signed: bool) -> None:
        self.node = node
        self._place = node.child.windows.index(node.sizes)
        self._by_time = window_below(node.child.join.left).kind is WindowKind.RANGE
        self._first_holder = number << HOLDER_BITS
        self._alive = LiveTuples(node.schema) if signed else None

    def step(self, inputs: list[Message], now: int) -> Message:
        whole: Pairs = inputs[0]
        pairs = whole.held_by(self._place, self.node.sizes)
        block = self._by_range(pairs) if self._by_time else self._by_rows(pairs)
        return block if self._alive is None else births_and_deaths(self._alive, block, now)

    def _by_range(self, pairs: Pairs) -> Block:
        end = np.minimum(pairs.anchors[0] + self.node.sizes[0], pairs.anchors[1] + self.node.sizes[1])
        holder = np.full(len(pairs), NO_HOLDER) if self._alive is None else self._first_holder + pairs.number
        return Block(pairs.columns, pairs.start, end, holder, Fills.none())

    def _by_rows(self, pairs: Pairs) -> Block:
        sizes, arrivals = self.node.sizes, pairs.pushed.arrivals
        fills = pairs.pushed.fills(self._place, sizes, self._first_holder)
        end = np.minimum(
            _time_of(arrivals[0], pairs.anchors[0] + sizes[0]), _time_of(arrivals[1], pairs.anchors[1] + sizes[1])
        )
        return Block(pairs.columns, pairs.start, end, self._first_holder + pairs.number, fills)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        if self._alive is None:
            return Fills.none()
        return Fills.concat([Fills(c.holder, c.end) for c in self._alive.expiring.chunks()])

    @property
    def next_event(self) -> int:
        return FOREVER if self._alive is None else self._alive.next_death

    @property
    def held(self) -> int:
        return 0 if self._alive is None else len(self._alive)

    def state(self) -> State:
        return {} if self._alive is None else self._alive.state()

    def load(self, state: State) -> None:
        if self._alive is not None:
            self._alive.load(state)


def _time_of(arrivals: StepArrivals, number: Ints) -> Ints:
    """Returns when the tuples with these offsets arrived; FOREVER for those that have not. None of them arrived before
    this step."""
    if not len(arrivals.at):
        return np.full(len(number), FOREVER)
    place = number - arrivals.first
    return np.where(place < len(arrivals.at), arrivals.at[np.minimum(place, len(arrivals.at) - 1)], FOREVER)


JOIN_SHARE = OperatorSpec(
    JoinShare,
    lambda node, task: JoinShareOperator(node, task.number, task.signed),
    needs=same_columns,
    runs_after_child=True,
)

"""Windows of the negative-tuple method: every tuple is sent at its birth and again at its death.

State: the whole window with all columns, which the direct method does not need. A tuple's id is its offset in the
stream.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, Block, Fills, Ints, Signed, concat_columns
from kigen.lifetimes.chunks import Chunk, State, chunk_of
from kigen.lifetimes.live_tuples import LiveTuples
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.windows.kinds import make_window
from kigen.lifetimes.windows.window_operators import UnboundedWindow, WindowOperator
from kigen.plan.logical import Window


class NegativeWindow(Operator):
    """Sends the tuples of a window at birth and at death."""

    ordered = True

    @property
    def never_alive(self) -> int:
        return self._window.never_alive

    @never_alive.setter
    def never_alive(self, count: int) -> None:
        self._window.never_alive = count

    def __init__(self, window: WindowOperator, number: int) -> None:
        self.node = window.node
        self._window = window
        self._base = number << HOLDER_BITS
        self._alive = LiveTuples(window.node.schema)
        self._immortal = 0  # tuples of an UNBOUNDED window; they are numbered from 0 and never die

    def step(self, inputs: list[Message], now: int) -> Signed:
        (stream,) = inputs
        block = self._window.step(inputs, now)
        if isinstance(self._window, UnboundedWindow):
            self._immortal += len(stream)
            return Signed(block.columns, block.start, np.ones(len(block), dtype=np.int64), stream.sequence + self._base)
        return births_and_deaths(self._alive, block, now, self._window.ids)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        if isinstance(self._window, UnboundedWindow):
            return Fills(np.arange(self._base, self._base + self._immortal), np.full(self._immortal, FOREVER))
        return Fills.concat([Fills(_ids(c), c.end) for c in self._alive.expiring.chunks()])

    @property
    def next_event(self) -> int:
        return min(self._window.next_event, self._alive.next_death)

    @property
    def held(self) -> int:
        return self._window.held + len(self._alive)

    def state(self) -> State:
        return {"window": self._window.state(), "alive": self._alive.state(), "immortal": self._immortal}

    def load(self, state: State) -> None:
        self._window.load(state["window"])
        self._alive.load(state["alive"])
        self._immortal = state["immortal"]


def births_and_deaths(alive: LiveTuples, block: Block, now: int, ids: Ints | None = None) -> Signed:
    """Turns a block of the direct method into messages: the tuples born in it, and the tuples of `alive` that died
    before `now`. The `ids` of the tuples are their holders, unless they are given."""
    chunk = chunk_of(block)
    chunk.key = ids
    dead = alive.absorb(chunk, block.fills, now)
    parts = [c.columns for c in (block, dead) if len(c)] or [block.columns]
    return Signed(
        concat_columns(parts),
        np.concatenate([block.start, dead.end]),
        np.concatenate([np.ones(len(block), dtype=np.int64), np.full(len(dead), -1, dtype=np.int64)]),
        np.concatenate([block.holder if ids is None else ids, _ids(dead)]),
    )


def _ids(chunk: Chunk) -> Ints:
    return chunk.holder if chunk.key is None else chunk.key


def build_window(node: Window, task: OperatorContext) -> Operator:
    """Builds a window for the method of the task."""
    window = make_window(node, task.number, task.secret)
    return NegativeWindow(window, task.number) if task.signed else window


WINDOW = OperatorSpec(Window, build_window)

"""What every operator on relations offers, and how changes of groups become births and deaths in either method.

The core of an operator finds *changes*: rows that open and rows that close, each with an id. The direct method gives an
opened row its death if the same step closes it, else its id as holder, filled by the step that closes it. The
negative-tuple method sends both as messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Ints, Mask, Signed, concat_columns
from kigen.lifetimes.live_tuples import State

Message = Any  # Block or Signed, by the method; StreamBlock below windows


class Operator:
    """`step` takes what the children gave in this step and the new time; nothing at or after `now` may be assumed."""

    def step(self, inputs: list[Message], now: int) -> Message:
        raise TypeError(type(self).__name__)

    def pieces(self, inputs: list[Message], now: int) -> Iterator[tuple[int, Message]]:
        """The step in stretches of time, each until an instant, the last until `now`; what is above runs a step for
        each of them."""
        yield now, self.step(inputs, now)

    @property
    def next_event(self) -> int:
        """The earliest instant at which this operator will act though nothing arrives."""
        return FOREVER

    @property
    def held(self) -> int:
        """Tuples in state."""
        return 0

    @property
    def kept_of_inputs(self) -> tuple[Any, ...]:
        """What is kept of each input, in the order of the children, for accounting: each has `held` or a length, in
        tuples."""
        return ()

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        pass

    ordered = False  # whether its tuples already come in an order that all replicas share
    hands_on_ends = False  # whether the deaths of its tuples follow from those of its inputs

    def known_ends(self, inputs: list[Fills]) -> Fills:
        """Negative-tuple method, when a query ends: ids of tuples alive whose deaths are settled already, though still
        ahead."""
        return Fills.none()


@dataclass(frozen=True)
class Opened:
    """Rows that open in this step. `end` is FOREVER where this step does not close them."""

    columns: pa.RecordBatch
    start: Ints
    end: Ints
    id: Ints


@dataclass(frozen=True)
class Closed:
    """Rows that close in this step; `earlier` marks those opened in a step before. `columns` only for the
    negative-tuple method."""

    columns: pa.RecordBatch | None
    end: Ints
    id: Ints
    earlier: Mask


def as_block(opened: Opened, closed: Closed) -> Block:
    holder = np.where(opened.end == FOREVER, opened.id, NO_HOLDER)
    fills = Fills(closed.id[closed.earlier], closed.end[closed.earlier])
    return Block(opened.columns, opened.start, opened.end, holder, fills)


def as_signed(opened: Opened, closed: Closed) -> Signed:
    assert closed.columns is not None
    plus, minus = np.ones(len(opened.start), dtype=np.int64), np.full(len(closed.end), -1, dtype=np.int64)
    columns = [c for c, n in ((opened.columns, len(plus)), (closed.columns, len(minus))) if n] or [opened.columns]
    return Signed(
        concat_columns(columns),
        np.concatenate([opened.start, closed.end]),
        np.concatenate([plus, minus]),
        np.concatenate([opened.id, closed.id]),
    )

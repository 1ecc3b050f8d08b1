"""The interface of operators, and how changes of groups become births and deaths in either method.

The core of an operator finds *changes*: rows that open and rows that close, each with an id. In the direct method an
opened row gets its death if the same step closes it; otherwise it gets its id as holder, and the step that closes it
fills the holder. The negative-tuple method sends both changes as messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Ints, Mask, Signed, concat_columns
from kigen.lifetimes.chunks import State

Message = Any  # Block or Signed, depending on the method; StreamBlock below windows


class Operator:
    """Base of operators. `step` gets what the children gave in this step, and the new time. It must not assume anything
    about instants at or after `now`."""

    def step(self, inputs: list[Message], now: int) -> Message:
        raise TypeError(type(self).__name__)

    def pieces(self, inputs: list[Message], now: int) -> Iterator[tuple[int, Message]]:
        """Yields the step in stretches of time: until when each one goes, and its message. The last one goes until
        `now`. The operators above run one step per stretch."""
        yield now, self.step(inputs, now)

    @property
    def next_event(self) -> int:
        """The earliest instant at which this operator acts even if nothing arrives."""
        return FOREVER

    @property
    def held(self) -> int:
        """Number of tuples in state."""
        return 0

    @property
    def kept_of_inputs(self) -> tuple[Any, ...]:
        """State that belongs to each input, in the order of `PlanNode.input_relations`, for memory accounting. Each
        element has `held` or a length, in tuples."""
        return ()

    def state(self) -> State:
        """Returns the state as a tree of dicts, lists, numbers, numpy arrays and Arrow batches
        (kigen.lifetimes.codec)."""
        return {}

    def load(self, state: State) -> None:
        """Restores what `state` returned."""

    ordered = False  # whether its tuples come in an order on which all replicas agree
    hands_on_ends = False  # whether the deaths of its tuples follow from the deaths of its input tuples

    def known_ends(self, inputs: list[Fills]) -> Fills:
        """Returns the ids of tuples that are alive but whose deaths are already settled. The negative-tuple method
        needs them when a query ends. `inputs` are those of the children if `hands_on_ends` is set, else empty."""
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
    """Rows that close in this step. `earlier` is true for rows that an earlier step opened. `columns` are set only in
    the negative-tuple method."""

    columns: pa.RecordBatch | None
    end: Ints
    id: Ints
    earlier: Mask


def as_block(opened: Opened, closed: Closed) -> Block:
    """Turns changes into a block of the direct method."""
    holder = np.where(opened.end == FOREVER, opened.id, NO_HOLDER)
    fills = Fills(closed.id[closed.earlier], closed.end[closed.earlier])
    return Block(opened.columns, opened.start, opened.end, holder, fills)


def as_signed(opened: Opened, closed: Closed) -> Signed:
    """Turns changes into messages of the negative-tuple method."""
    assert closed.columns is not None
    plus, minus = np.ones(len(opened.start), dtype=np.int64), np.full(len(closed.end), -1, dtype=np.int64)
    columns = [c for c, n in ((opened.columns, len(plus)), (closed.columns, len(minus))) if n] or [opened.columns]
    return Signed(
        concat_columns(columns),
        np.concatenate([opened.start, closed.end]),
        np.concatenate([plus, minus]),
        np.concatenate([opened.id, closed.id]),
    )

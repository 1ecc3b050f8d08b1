"""Windows of the direct method: they turn a stream tuple into a tuple with a lifetime. The negative-tuple method wraps
them in a `NegativeWindow`.

RANGE and NOW know every death at once. ROWS gives out a holder, the tuple's own offset, and the tuple `size` later
fills it; the only state is the numbering of the stream. PARTITION BY ROWS keeps the offsets (not the tuples) of the
last rows of each partition.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import (
    BEFORE_TIME,
    FOREVER,
    HOLDER_BITS,
    NO_HOLDER,
    Block,
    Fills,
    Ints,
    StreamBlock,
    concat_ints,
    no_ints,
)
from kigen.lifetimes.chunks import State, chunk_of
from kigen.lifetimes.codec import StateFormatError
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.operator import Message, Operator
from kigen.plan.logical import Window, WindowKind
from kigen.plan.types import arrow_schema


class WindowOperator(Operator):
    """Base of windows; by itself a window without state. Its tuples come in the order of the stream, which every
    replica has."""

    ordered = True
    never_alive = 0  # tuples that were never alive, since the last question; for windows that can tell
    ids: Ints | None = None  # of the tuples that the last step gave, where they are not the holders

    def __init__(self, node: Window, number: int) -> None:
        self.node = node
        self._base = number << HOLDER_BITS


def later(at: Ints, by: int) -> Ints:
    """Adds `by` to times; the result is never after the end of time."""
    room = int(FOREVER) - by
    if not len(at) or at.max() <= room:
        return at + by
    return np.where(at > room, FOREVER, np.minimum(at, room) + by)


class RangeWindow(WindowOperator):
    """RANGE n and NOW."""

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        end = later(stream.at, 1 if self.node.kind is WindowKind.NOW else self.node.size)
        return Block(stream.columns, stream.at, end, stream.sequence + self._base, Fills.none())


class UnboundedWindow(WindowOperator):
    """UNBOUNDED: it is known that no tuple ever dies, so there is no holder to wait for."""

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        count = len(stream)
        return Block(stream.columns, stream.at, np.full(count, FOREVER), np.full(count, NO_HOLDER), Fills.none())


class UntilWindow(WindowOperator):
    """UNTIL column: a tuple dies at the time in its column; NULL: never. A tuple whose time is not after its own
    timestamp is never alive, and is counted."""

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        column = stream.columns.column(self.node.partition[0]).view(pa.int64())
        end = np.asarray(pc.fill_null(column, int(FOREVER)).to_numpy(zero_copy_only=False))
        holder = np.where(end == FOREVER, NO_HOLDER, stream.sequence + self._base)
        alive = stream.at < end
        self.never_alive += len(stream) - int(alive.sum())
        self.ids = (stream.sequence + self._base)[alive]
        return Block(stream.columns, stream.at, end, holder, Fills.none()).filter(alive)


class SlidingWindow(WindowOperator):
    """RANGE n SLIDE m: a tuple is born at the first multiple of m not before its timestamp, and dies at the first one
    not before timestamp + n. Tuples whose birth lies ahead are kept until time reaches it. With bounds, each stretch
    between two multiples is a tuple of its own."""

    def __init__(self, node: Window, number: int) -> None:
        super().__init__(node, number)
        self._ahead = Block.empty(node.schema)

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        slide = self.node.slide_us
        assert slide is not None
        start = -(-stream.at // slide) * slide
        last = FOREVER // slide * slide  # the last multiple
        start, end = np.where(stream.at > last, FOREVER, start), later(stream.at, self.node.size)
        end = np.where(end > last, FOREVER, -(-np.minimum(end, last) // slide) * slide)
        born = Block(stream.columns, start, end, stream.sequence + self._base, Fills.none()).filter(start < end)
        everything = Block.concat([self._ahead, self._cut(born, slide) if self.node.bounds else born])
        ready = everything.start < now
        self._ahead = everything.filter(~ready)
        return everything.filter(ready)

    def _cut(self, born: Block, slide: int) -> Block:
        """Cuts lifetimes at the multiples of the slide, and adds the multiples around each stretch as columns."""
        pieces = (born.end - born.start) // slide
        most = -(-self.node.size // slide) + 1
        number = expand(np.zeros_like(pieces), pieces)
        row = np.repeat(np.arange(len(born)), pieces)
        start = born.start[row] + number * slide
        arrays = [column.take(pa.array(row)) for column in born.columns.columns]
        arrays += [pa.array(times).view(pa.timestamp("us")) for times in (start, start + slide)]
        columns = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.node.schema))
        holder = (born.holder[row] - self._base) * most + number + self._base
        return Block(columns, start, start + slide, holder, Fills.none())

    @property
    def next_event(self) -> int:
        return int(self._ahead.start.min()) if len(self._ahead) else FOREVER

    def state(self) -> State:
        return chunk_of(self._ahead).state()

    def load(self, state: State) -> None:
        self._ahead = Block(state["columns"], state["start"], state["end"], state["holder"], Fills.none())

    @property
    def held(self) -> int:
        return len(self._ahead)


class RowsWindow(WindowOperator):
    """ROWS n: a tuple dies when the n-th tuple after it arrives."""

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        size, count = self.node.size, len(stream)
        end = np.full(count, FOREVER)
        end[: max(count - size, 0)] = stream.at[size:]
        victim = stream.sequence[:size] - size
        known = victim >= 0
        fills = Fills(victim[known] + self._base, stream.at[:size][known])
        return Block(stream.columns, stream.at, end, stream.sequence + self._base, fills).filter(stream.at < end)


class PartitionRowsWindow(WindowOperator):
    """PARTITION BY ... ROWS n: a tuple dies when the n-th tuple after it in its partition arrives."""

    def __init__(self, node: Window, number: int, secret: int) -> None:
        super().__init__(node, number)
        self._groups = Groups(tuple(node.schema[k] for k in node.partition), secret)
        self._key: Ints = no_ints()  # slots of the tuples that no later one has pushed out, ordered by (key, sequence)
        self._sequence: Ints = no_ints()

    def _partitions(self, stream: StreamBlock) -> Ints:
        columns = stream.columns.select(list(self.node.partition)).rename_columns(
            [f"c{i}" for i in range(len(self.node.partition))]
        )
        return self._groups.assign(columns, len(stream))

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        size, old = self.node.size, len(self._key)
        keys = concat_ints([self._key, self._partitions(stream)])
        sequence = concat_ints([self._sequence, stream.sequence])
        at = concat_ints([np.full(old, BEFORE_TIME), stream.at])
        order = np.lexsort((sequence, keys))
        sorted_keys = keys[order]
        pushed = np.zeros(
            len(order), dtype=np.bool_
        )  # by position in the order: whether the tuple `size` later is present
        if len(order) > size:
            pushed[:-size] = sorted_keys[:-size] == sorted_keys[size:]
        end = np.full(len(order), FOREVER)
        killed = order[np.flatnonzero(pushed)]
        end[killed] = at[order[np.flatnonzero(pushed) + size]]
        left = order[~pushed]
        self._key, self._sequence = keys[left], sequence[left]
        gone = end[:old] != FOREVER
        fills = Fills(sequence[:old][gone] + self._base, end[:old][gone])
        ends = end[old:]
        return Block(stream.columns, stream.at, ends, stream.sequence + self._base, fills).filter(stream.at < ends)

    def state(self) -> State:
        return {"key": self._key, "sequence": self._sequence, "groups": self._groups.state()}

    def load(self, state: State) -> None:
        if "groups" not in state:
            raise StateFormatError("PARTITION BY ... ROWS windows have another format since format 2")
        self._groups.load(state["groups"])
        self._key, self._sequence = state["key"], state["sequence"]

    @property
    def held(self) -> int:
        return len(self._key)

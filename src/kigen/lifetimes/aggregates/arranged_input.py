"""Turns an aggregate's input into births and deaths, as Lifecycle does, and keeps the live tuples arranged by group.

The calendars of deaths and holders have the tuples' numbers only; their columns lie in the arranged rows. A saved state
has the columns again, as that of Lifecycle has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kigen.lifetimes.aggregates.arranged_rows import ArrangedRows, Contest
from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Ints, Signed, empty_columns
from kigen.lifetimes.chunks import MOST_TEXT, Chunk, State, chunk_states
from kigen.lifetimes.live_tuples import LiveTuples
from kigen.lifetimes.operator import Message
from kigen.lifetimes.sweeps.lifecycle import Assign, Events, Lifecycle
from kigen.plan.types import Schema


class ArrangedInput(Lifecycle):
    """The input of an aggregate that asks for the best tuples of its groups."""

    def __init__(
        self, schema: Schema, assign: Assign, signed: bool, keep: Sequence[int], contests: Iterable[Contest]
    ) -> None:
        super().__init__(schema, assign, signed, keep)
        self._contests = tuple(contests)
        self._start_again()

    def _start_again(self) -> None:
        self.rows = ArrangedRows(self.schema, self._keep, self._contests)
        self.alive = LiveTuples(())

    def events(self, message: Message, now: int) -> Events:
        """Returns the births and deaths of a step. The dead leave their contests; those who were born do not enter
        before `settle`."""
        assert self.alive is not None
        block: Block = message.as_block() if isinstance(message, Signed) else message
        slots = self._assign(block.columns, len(block))
        columns = self._kept(block.columns)
        born = self.rows.add(columns, slots, block.start)
        chunk = Chunk(empty_columns(()), block.start, block.end, block.holder, born)
        dead = self.alive.absorb(chunk, block.fills, now)
        gone = dead.key
        assert gone is not None
        self.rows.leave(gone)
        dead = Chunk(self.rows.columns_of(gone), dead.start, dead.end, dead.holder, self.rows.group[gone])
        living = self.rows.lives(born)
        whole = Chunk(columns, block.start, block.end, block.holder, slots)
        self._moving = Chunk.concat([dead, whole if bool(living.all()) else whole.filter(living)], self.schema)
        self._born, self._gone = born[living], gone
        births = Events(columns, slots, block.start, np.ones(len(block), dtype=np.int64))
        deaths = Events(dead.columns, self.rows.group[gone], dead.end, np.full(len(dead), -1, dtype=np.int64))
        return Events.concat([births, deaths])

    def candidates(self, groups: Ints) -> Chunk:
        """Returns the tuples that came or went in this step, and of those that live throughout it the best ones of
        these groups."""
        best = self.rows.best(groups)
        size = len(best)
        standing = Chunk(
            self.rows.columns_of(best),
            self.rows.birth[best],
            np.full(size, FOREVER),
            np.full(size, NO_HOLDER),
            self.rows.group[best],
        )
        return Chunk.concat([self._moving, standing], self.schema)

    def settle(self, groups: int) -> None:
        """Ends a step: the dead are forgotten, and those who were born and live enter the contests. Groups are below
        `groups`."""
        self.rows.forget(self._gone)
        self.rows.enter(self._born, groups)

    def state(self) -> State:
        assert self.alive is not None
        return {
            "expiring": [chunk.state() for chunk in self._whole_chunks(self.alive.expiring.chunks())],
            "waiting": [chunk.state() for chunk in self._whole_chunks(self.alive.waiting.chunks())],
        }

    def _whole_chunks(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Yields chunks with columns and groups, as few as text offsets of 32 bits allow."""
        for packed in Chunk.packed(chunks, ()):
            most = max(1, int(MOST_TEXT / max(self.rows.row_bytes, 1.0)))
            for begin in range(0, max(len(packed), 1), most):
                part = packed.cut(begin, min(begin + most, len(packed)))
                assert part.key is not None
                columns = self.rows.columns_of(part.key)
                yield Chunk(columns, part.start, part.end, part.holder, self.rows.group[part.key])

    def load(self, state: State, keys: Assign | None = None) -> None:
        self._start_again()
        assert self.alive is not None
        for name, add in (("expiring", self.alive.expiring.add), ("waiting", self.alive.waiting.add)):
            for saved in chunk_states(state[name]):
                chunk = Chunk.load(saved)
                group = chunk.key if keys is None else keys(chunk.columns, len(chunk))
                assert group is not None
                numbers = self.rows.add(chunk.columns, group, chunk.start)
                add(Chunk(empty_columns(()), chunk.start, chunk.end, chunk.holder, numbers))
                self.rows.enter(numbers, int(group.max()) + 1 if len(group) else 0)

"""Turns an operator's input into births and deaths. The direct method keeps the live tuples itself and finds their
deaths; the negative-tuple method receives them.

The direct method looks up a tuple's group once, at its birth, and remembers the slot. A negative tuple is looked up
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, Block, Ints, Signed, concat_columns
from kigen.lifetimes.chunks import Chunk, State, chunk_states
from kigen.lifetimes.live_tuples import LiveTuples
from kigen.lifetimes.operator import Message
from kigen.plan.types import Schema

Assign = Callable[[pa.RecordBatch, int], Ints]


@dataclass(frozen=True)
class Events:
    """Births (+1) and deaths (-1) of a step: the group, the instant, and the kept columns."""

    columns: pa.RecordBatch
    slot: Ints
    time: Ints
    sign: Ints

    def __len__(self) -> int:
        return len(self.time)

    @staticmethod
    def concat(parts: list[Events]) -> Events:
        full = [p for p in parts if len(p)] or parts[:1]
        return Events(
            concat_columns([p.columns for p in full]),
            np.concatenate([p.slot for p in full]),
            np.concatenate([p.time for p in full]),
            np.concatenate([p.sign for p in full]),
        )


class Lifecycle:
    """One input of an operator. `assign` returns the slots of rows. Only the columns `keep` are kept, by position.
    `living` keeps the live tuples for negative tuples too (MIN, MAX and RSTREAM need them)."""

    def __init__(self, schema: Schema, assign: Assign, signed: bool, keep: Sequence[int], living: bool = False) -> None:
        self._signed, self._assign, self._living = signed, assign, living
        self._keep = list(keep)
        kept = tuple(schema[k] for k in keep)
        self._whole = len(kept) == len(schema)
        self.schema = kept
        self.alive = LiveTuples(kept) if living or not signed else None
        self.dead: Chunk | None = None  # tuples that died in the last step, if live tuples are kept

    def _kept(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        if self._whole:
            return columns
        chosen = columns.select(self._keep)
        return chosen.rename_columns([f"c{i}" for i in range(len(self._keep))]) if self._keep else chosen

    def events(self, message: Message, now: int) -> Events:
        """Returns the births and deaths of a step."""
        if self.alive is None:
            assert isinstance(message, Signed)
            slots = self._assign(message.columns, len(message))
            return Events(self._kept(message.columns), slots, message.at, message.sign)
        block: Block = message.as_block() if self._signed else message
        slots = self._assign(block.columns, len(block))
        columns = self._kept(block.columns)
        chunk = Chunk(columns, block.start, block.end, block.holder, slots)
        dead = self.dead = self.alive.absorb(chunk if self._living else chunk.mortal(), block.fills, now)
        born = Events(columns, slots, block.start, np.ones(len(block), dtype=np.int64))
        assert dead.key is not None
        return Events.concat([born, Events(dead.columns, dead.key, dead.end, np.full(len(dead), -1, dtype=np.int64))])

    @property
    def next_death(self) -> int:
        return FOREVER if self.alive is None else self.alive.next_death

    @property
    def held(self) -> int:
        return 0 if self.alive is None else len(self.alive)

    def state(self) -> State:
        return {} if self.alive is None else self.alive.state()

    def load(self, state: State, keys: Assign | None = None) -> None:
        """Restores the live tuples. With `keys`, the keys of all tuples are computed again."""
        if self.alive is not None:
            for chunk in [c for saved in state.values() for c in chunk_states(saved)] if keys is not None else ():
                assert keys is not None
                chunk["key"] = keys(chunk["columns"], len(chunk["start"]))
            self.alive.load(state)

"""Where an operator's events come from: the direct method keeps the living itself and lets them die; the negative-tuple method is told."""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.alive import Alive, Chunk, State
from kigen.lifetimes.blocks import FOREVER, Block, Signed
from kigen.lifetimes.operator import Events, Message
from kigen.plan.types import Schema


class Lifecycle:
    """One input of an operator. `living` forces the direct bookkeeping also for negative tuples (MIN, MAX, RSTREAM need the living)."""

    def __init__(self, schema: Schema, signed: bool, living: bool = False) -> None:
        self._signed = signed
        self.alive = Alive(schema) if living or not signed else None
        self.dead: Chunk | None = None  # of the last step, where the living are kept

    def events(self, message: Message, now: int) -> Events:
        if self.alive is None:
            assert isinstance(message, Signed)
            return Events(message.columns, message.at, message.sign)
        block: Block = message.as_block() if self._signed else message
        dead = self.dead = self.alive.absorb(block, now)
        ones = np.ones(len(block), dtype=np.int64)
        born = Events(block.columns, block.start, ones)
        return Events.concat([born, Events(dead.columns, dead.end, np.full(len(dead), -1, dtype=np.int64))])

    @property
    def next_death(self) -> int:
        return FOREVER if self.alive is None else self.alive.next_death

    @property
    def held(self) -> int:
        return 0 if self.alive is None else len(self.alive)

    def state(self) -> State:
        return {} if self.alive is None else self.alive.state()

    def load(self, state: State) -> None:
        if self.alive is not None:
            self.alive.load(state)

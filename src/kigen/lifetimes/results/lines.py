"""Result lines of a query: a row with its lifetime, written once its death is known, or a stream tuple with its time.

Rows that wait for their death are kept. When the query ends, they are written without one. A row that is known never to
die is written at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, StreamBlock
from kigen.lifetimes.chunks import Chunk, State, chunk_of, chunk_states
from kigen.lifetimes.live_tuples import Waiting
from kigen.lifetimes.operator import Message
from kigen.plan.logical import Query


class Lines:
    """Turns the messages of a query's root into result lines."""

    def __init__(self, query: Query, signed: bool) -> None:
        self.query, self._signed = query, signed
        self._schema = query.schema
        self._waiting = Waiting(query.schema)
        self.finished = False

    def step(self, message: Message, now: int | None) -> pa.Table | None:
        if isinstance(message, StreamBlock):
            return _table(message.columns, {"_at": pa.array(message.at)}) if len(message) else None
        block: Block = message.as_block() if self._signed else message
        filled = self._waiting.fill(block.fills)
        waits = (block.end == FOREVER) & (block.holder != NO_HOLDER)
        if bool(waits.any()):
            if bool(waits.all()):
                self._waiting.add(chunk_of(block))
                return self._lines(filled)
            self._waiting.add(chunk_of(block, waits))
            block = block.filter(~waits)
        return self._lines(Chunk.concat([filled, chunk_of(block)], self._schema))

    def finish(self, known: Fills, last: int | None) -> pa.Table | None:
        """Returns the rows that are still alive when the query ends. `known` are deaths that are already settled but
        lie ahead (negative-tuple method)."""
        self.finished = True
        settled = self._waiting.fill(known)
        rest = Chunk.concat(self._waiting.chunks(), self._schema)
        self._waiting = Waiting(self._schema)
        return self._lines(Chunk.concat([settled, rest], self._schema))

    def _lines(self, chunk: Chunk) -> pa.Table | None:
        if not len(chunk):
            return None
        ends = pa.array(chunk.end, mask=np.asarray(chunk.end == FOREVER))
        return _table(chunk.columns, {"_from": pa.array(chunk.start), "_to": ends})

    @property
    def next_event(self) -> int:
        return FOREVER

    @property
    def held(self) -> int:
        return len(self._waiting)

    def state(self) -> State:
        waiting = [chunk.state() for chunk in Chunk.packed(self._waiting.chunks(), self._schema)]
        return {"waiting": waiting, "finished": self.finished}

    def load(self, state: State) -> None:
        self._waiting = Waiting(self._schema)
        for saved in chunk_states(state["waiting"]):
            self._waiting.add(Chunk.load(saved))
        self.finished = state["finished"]


def _table(columns: pa.RecordBatch, times: dict[str, pa.Array]) -> pa.Table:
    names = [f"c{i}" for i in range(columns.num_columns)]
    return pa.table([*columns.columns, *times.values()], names=[*names, *times])

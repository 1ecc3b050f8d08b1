"""Takes in a relation that another node computed. Births and fills wait until time passes them.

Invariant: a release gives what every block has (kigen.lifetimes.blocks): births and fills lie before `now`, and a tuple
whose death is not known lives at least until `now`. A fill that came together with the birth of its holder is put into
the birth. Cost: linear in the rows that wait. Mostly a release takes all of them, since a watermark follows them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import FOREVER, Block, Fills
from kigen.lifetimes.chunks import State
from kigen.lifetimes.exchange.sent import is_end, is_watermark, last_of_end, outputs_of_gap
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.plan.logical import SourceStream
from kigen.plan.types import arrow_schema


class ReceivedIntake(Intake):
    """Takes tables of c0, c1, ..., `_from`, `_to`, `_holder` (kigen.lifetimes.exchange.sent) without watermark
    rows."""

    def __init__(self, stream: SourceStream) -> None:
        super().__init__(stream)
        self._births: list[Block] = []
        self._deaths: list[Fills] = []

    def _add(self, table: pa.Table) -> tuple[int, int]:
        schema = arrow_schema(self.stream.schema)
        accepted = 0
        for batch in table.to_batches():
            start, end, holder = (batch.column(name) for name in ("_from", "_to", "_holder"))
            born = np.asarray(start.is_valid().to_numpy(zero_copy_only=False), bool)
            if not born.all():
                dead = pa.array(~born)
                self._deaths.append(Fills(_ints(holder.filter(dead)), _ints(end.filter(dead))))
                batch = batch.filter(pa.array(born))
                start, end, holder = (batch.column(name) for name in ("_from", "_to", "_holder"))
            columns = pa.RecordBatch.from_arrays([batch.column(f.name) for f in schema], schema=schema)
            self._births.append(Block(columns, _ints(start), _ints(end), _ints(holder), Fills.none()))
            accepted += len(start)
        return accepted, 0

    def _forget(self) -> None:
        self._births, self._deaths, self._steps = [], [], []

    @property
    def progress(self) -> int:
        return FOREVER if self.ended else self._clock

    @property
    def next_event(self) -> int:
        ahead = [b.start for b in self._births] + [d.end for d in self._deaths]
        return min((int(times.min()) for times in ahead if len(times)), default=FOREVER)

    @property
    def wanted(self) -> int:
        return min(self.next_event + 1, FOREVER)

    @property
    def last(self) -> int | None:
        return self._last

    def release(self, now: int) -> Block:  # type: ignore[override]  # Intake gives a stream, this one a relation
        self._released = now
        born, self._births = _split_births(self._births, now)
        block = Block.concat(born) if born else Block.empty(self.stream.schema)
        deaths = Fills.concat(self._deaths)
        due = deaths.end < now
        fills = Fills(deaths.holder[due], deaths.end[due]).sorted()
        self._deaths = [] if due.all() else [Fills(deaths.holder[~due], deaths.end[~due])]
        end = block.end
        if len(fills) and len(block):
            place = np.minimum(np.searchsorted(fills.holder, block.holder), len(fills) - 1)
            same = (end == FOREVER) & (fills.holder[place] == block.holder)
            end = np.where(same, fills.end[place], end)
        return Block(block.columns, block.start, end, block.holder, fills)

    def milestones(self, size: int) -> list[int]:
        self._steps = [at for at in self._steps if at > self._released]
        return self._steps

    @property
    def held(self) -> int:
        return sum(len(b) for b in self._births) + sum(len(d) for d in self._deaths)

    def state(self) -> State:
        births = Block.concat(self._births) if self._births else Block.empty(self.stream.schema)
        deaths = Fills.concat(self._deaths)
        return {
            "columns": births.columns,
            "births": [births.start, births.end, births.holder],
            "deaths": [deaths.holder, deaths.end],
            "clock": self._clock,
            "released": self._released,
            "ended": self.ended,
            "last": self._last,
            "steps": list(self._steps),
        }

    def load(self, state: State) -> None:
        start, end, holder = state["births"]
        births = Block(state["columns"], start, end, holder, Fills.none())
        self._births = [births] if len(births) else []
        deaths = Fills(*state["deaths"])
        self._deaths = [deaths] if len(deaths) else []
        self._clock, self._released, self.ended = state["clock"], state["released"], state["ended"]
        self._last, self._steps = state["last"], list(state["steps"])


def _split_births(blocks: list[Block], now: int) -> tuple[list[Block], list[Block]]:
    before: list[Block] = []
    later: list[Block] = []
    for block in blocks:
        due = block.start < now
        if due.all():
            before.append(block)
            continue
        if due.any():
            before.append(block.filter(due))
        later.append(block.filter(~due))
    return before, later


def _ints(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)


def input_of_rows(rows: pa.Table, halting: bool = False) -> StreamInput:
    """Turns rows of a queue, watermark rows included, into the input of a task. With `halting`, time stops at every
    watermark, so that every reader of the same rows takes the same steps and gives the same rows in the same order,
    however the rows are cut into batches."""
    watermarks = is_watermark(rows)
    values = [int(v) for v in rows.column("_arrived").filter(watermarks).to_pylist()]
    gaps = [(place, outputs_of_gap(value)) for place, value in enumerate(values) if outputs_of_gap(value) is not None]
    if gaps:  # rows before the last gap are not needed
        place, jump = gaps[-1]
        after = pc.indices_nonzero(watermarks)[place].as_py() + 1
        given = input_of_rows(rows.slice(after), halting)
        given.jump = jump
        return given
    tuples = rows.filter(pc.invert(watermarks))
    ends = [v for v in values if is_end(v)]
    progress = [v for v in values if not is_end(v)]
    if "_at" in rows.schema.names:
        names = ["_ts" if name == "_at" else name for name in tuples.schema.names]
        tuples = tuples.rename_columns(names)
    return StreamInput(
        [tuples] if tuples.num_rows else [],
        progress_us=progress[-1] if progress else None,
        ended=bool(ends),
        last_us=last_of_end(ends[0]) if ends else None,
        steps_us=progress if halting else [],
    )

"""Rows of a table that changes while the app runs: versions come in as births and deaths, and take effect at once.

The first version is alive at all times. A later one takes effect at the watermark of the task that reads it: the
instant up to which the task has computed everything. Every row has a number, which its death names, so nothing here
holds the table. Invariant: what a task computes depends on the steps in which it got the versions, never on a clock.
Cost: linear in the changes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, HOLDER_BITS, NO_HOLDER, Block, Fills, Signed
from kigen.lifetimes.chunks import State
from kigen.lifetimes.exchange.received import ReceivedIntake
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.lifetimes.intake import StreamInput
from kigen.lifetimes.live_tuples import LiveTuples
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec
from kigen.lifetimes.windows.negatives import births_and_deaths, build_window
from kigen.plan.logical import Table, Window, WindowKind

ROW, BORN = "_row", "_born"  # columns of a version: the number of a row, and whether it is born (else it dies)


class TableIntake(ReceivedIntake):
    """Takes in the versions of a table. Once the first one is here, the table holds up no query."""

    def take_in(self, given: StreamInput) -> tuple[int, int]:
        at = max(self._released, FIRST_US)
        tables = [_timed(table, at) for table in given.tables]
        accepted, late = super().take_in(StreamInput(tables))
        self.ended = True
        return accepted, late

    def release(self, now: int) -> Block:  # type: ignore[override]
        block = super().release(now)
        return block.without_ghosts()


def _timed(table: pa.Table, at: int) -> pa.Table:
    """Returns the rows as a relation from elsewhere has them: `_from` of a birth, `_to` of a death, and the holder."""
    count = table.num_rows
    if BORN not in table.column_names:  # a first version that nobody has numbered
        table = table.append_column(ROW, pa.array(np.arange(count))).append_column(BORN, pa.array(np.full(count, True)))
    born = table.column(BORN).combine_chunks()
    start = pa.compute.if_else(born, pa.scalar(at, pa.int64()), pa.scalar(None, pa.int64()))
    end = pa.compute.if_else(born, pa.scalar(FOREVER, pa.int64()), pa.scalar(at, pa.int64()))
    for name, column in (("_from", start), ("_to", end), ("_holder", table.column(ROW))):
        table = table.append_column(name, column)
    return table


class TableRows(Operator):
    """Gives holders to the rows, which are numbered per table, so that no other operator has the same."""

    ordered = True

    def __init__(self, node: Table, number: int) -> None:
        self.node = node
        self._base = number << HOLDER_BITS

    def step(self, inputs: list[Message], now: int) -> Block:
        (rows,) = inputs
        holder = np.where(rows.holder == NO_HOLDER, NO_HOLDER, rows.holder + self._base)
        return Block(rows.columns, rows.start, rows.end, holder, Fills(rows.fills.holder + self._base, rows.fills.end))


class NegativeTableRows(TableRows):
    """Sends the rows at birth and at death."""

    def __init__(self, node: Table, number: int) -> None:
        super().__init__(node, number)
        self._alive = LiveTuples(node.schema)

    def step(self, inputs: list[Message], now: int) -> Signed:  # type: ignore[override]
        return births_and_deaths(self._alive, super().step(inputs, now), now)

    @property
    def next_event(self) -> int:
        return self._alive.next_death

    @property
    def held(self) -> int:
        return len(self._alive)

    def state(self) -> State:
        return {"alive": self._alive.state()}

    def load(self, state: State) -> None:
        self._alive.load(state["alive"])


def _build(node: Table, task: OperatorContext) -> Operator:
    if not node.changes:
        return build_window(Window(node.child, WindowKind.UNBOUNDED), task)
    return (NegativeTableRows if task.signed else TableRows)(node, task.number)


TABLE = OperatorSpec(Table, _build)

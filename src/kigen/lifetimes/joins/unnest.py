"""UNNEST: a row for each element of a list, with the lifetime of the row.

The direct method gives all rows of a list one holder, that of the row. Negative tuples need different ids: that of an
element follows from the row's id and the element's place. No state, except the length of the longest list. Cost: the
elements. The list itself is repeated beside its elements only if something above reads it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Block, Fills, Ints, Signed, absent
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.row_keys import mix
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import Columns, OperatorContext, OperatorSpec
from kigen.plan.logical import Unnest
from kigen.plan.types import arrow_schema


class UnnestOperator(Operator):
    """Repeats the rows of its input."""

    hands_on_ends = True

    def __init__(self, node: Unnest, task: OperatorContext) -> None:
        self.node, self._number, self._needed = node, task.number, task.needed
        self._schema = arrow_schema(node.schema)
        self._longest = 0  # elements of a list, so far

    def step(self, inputs: list[Message], now: int) -> Message:
        (message,) = inputs
        lists = message.columns.column(self.node.column)
        lengths = np.asarray(
            pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64
        )
        row = np.repeat(np.arange(len(lengths)), lengths)
        columns = self._columns(message.columns, row, lists.flatten())
        if isinstance(message, Block):
            return Block(columns, message.start[row], message.end[row], message.holder[row], message.fills)
        assert isinstance(message, Signed)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        place = expand(np.zeros(len(lengths), dtype=np.int64), lengths)
        return Signed(columns, message.at[row], message.sign[row], self._id(message.id[row], place))

    def _columns(self, columns: pa.RecordBatch, row: Ints, elements: pa.Array) -> pa.RecordBatch:
        index = pa.array(row)
        arrays = [
            column.take(index) if place in self._needed else absent(column.type, len(row))
            for place, column in enumerate(columns.columns)
        ]
        return pa.RecordBatch.from_arrays([*arrays, elements], schema=self._schema)

    def _id(self, ids: Ints, place: Ints) -> Ints:
        return mix(ids, place, self._number)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        """Returns the deaths of all elements that a row may have; ids that no tuple has do no harm."""
        (fills,) = inputs
        places = np.tile(np.arange(self._longest), len(fills))
        return Fills(self._id(np.repeat(fills.holder, self._longest), places), np.repeat(fills.end, self._longest))

    def state(self) -> State:
        return {"longest": self._longest}

    def load(self, state: State) -> None:
        self._longest = state["longest"]


def _needs(node: Unnest, needed: Columns) -> list[Columns]:
    return [{column for column in needed if column < len(node.child.schema)} | {node.column}]


UNNEST = OperatorSpec(Unnest, UnnestOperator, _needs)

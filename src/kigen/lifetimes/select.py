"""Selection, projection and union. The result has the input's lifetimes, so times, holders and fills are passed on
unchanged.

The same code serves both methods. With negative tuples there are twice as many messages, and every expression is
evaluated twice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Block, Fills, Signed, absent
from kigen.lifetimes.expressions.evaluation import evaluate, is_true
from kigen.lifetimes.keys.row_keys import mix
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import Columns, OperatorSpec, same_columns
from kigen.plan.expressions.columns import columns_of
from kigen.plan.logical import Clocked, Filter, OuterJoin, Project, UnionAll
from kigen.plan.types import arrow_schema


class FilterOperator(Operator):
    """Keeps the rows for which the predicate is true."""

    hands_on_ends = True

    def __init__(self, node: Filter) -> None:
        self.node = node

    def step(self, inputs: list[Message], now: int) -> Message:
        (message,) = inputs
        if not len(message):
            return message
        return message.filter(is_true(message.columns, len(message), self.node.predicate))

    def known_ends(self, inputs: list[Fills]) -> Fills:
        return inputs[0]


class ProjectOperator(Operator):
    """Evaluates expressions, except those that nothing above reads."""

    hands_on_ends = True

    def __init__(self, node: Project, needed: set[int] | None = None) -> None:
        self.node = node
        self._schema = arrow_schema(node.schema)
        self._needed = [i for i in range(len(node.exprs)) if needed is None or i in needed]

    def step(self, inputs: list[Message], now: int) -> Message:
        (message,) = inputs
        found = evaluate(message.columns, len(message), [self.node.exprs[i] for i in self._needed])
        made = dict(zip(self._needed, found, strict=True))
        arrays = [made[i] if i in made else absent(field.type, len(message)) for i, field in enumerate(self._schema)]
        return message.with_columns(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def known_ends(self, inputs: list[Fills]) -> Fills:
        return inputs[0]


class UnionOperator(Operator):
    """Puts its inputs together. Two tuples may have the same holder (a relation united with itself), but negative
    tuples need different ids, so each branch salts them."""

    hands_on_ends = True

    def __init__(self, node: UnionAll, number: int, signed: bool) -> None:
        self.node, self._number, self._signed = node, number, signed

    def step(self, inputs: list[Message], now: int) -> Message:
        if not self._signed:
            return Block.concat(inputs)
        return Signed.concat([Signed(m.columns, m.at, m.sign, self._salted(m.id, i)) for i, m in enumerate(inputs)])

    def _salted(
        self, ids: np.ndarray[tuple[int], np.dtype[np.int64]], branch: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return mix(ids, np.full(len(ids), branch, dtype=np.int64), self._number)

    def known_ends(self, inputs: list[Fills]) -> Fills:
        return Fills.concat([Fills(self._salted(f.holder, i), f.end) for i, f in enumerate(inputs)])


class ClockedOperator(Operator):
    """Hands on its first input. The others have no rows: they only hold up the time of the task."""

    ordered = hands_on_ends = True

    def step(self, inputs: list[Message], now: int) -> Message:
        return inputs[0]

    def known_ends(self, inputs: list[Fills]) -> Fills:
        return inputs[0]


def _filter_needs(node: Filter, needed: Columns) -> list[Columns]:
    return [needed | columns_of(node.predicate.sql)]


def _project_needs(node: Project, needed: Columns) -> list[Columns]:
    return [set().union(*(columns_of(node.exprs[i].sql) for i in needed))]


def _clocked_needs(node: Clocked, needed: Columns) -> list[Columns]:
    return [set(needed), *(set[int]() for _ in node.clocks)]


CLOCKED = OperatorSpec(Clocked, lambda node, task: ClockedOperator(), _clocked_needs)
FILTER = OperatorSpec(Filter, lambda node, task: FilterOperator(node), _filter_needs)
PROJECT = OperatorSpec(Project, lambda node, task: ProjectOperator(node, task.needed), _project_needs)
UNION_ALL = OperatorSpec(UnionAll, lambda node, task: UnionOperator(node, task.number, task.signed), same_columns)
OUTER_JOIN = OperatorSpec(OuterJoin, lambda node, task: UnionOperator(node, task.number, task.signed), same_columns)

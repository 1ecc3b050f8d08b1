"""Checks that a relation never holds more than one row, as a scalar sub-query must not.

Rows that die and are born at one instant do not meet. Cost: one sweep over the births and deaths of a step.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Fills, Ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorContext, OperatorSpec, same_columns
from kigen.lifetimes.sweeps.lifecycle import Lifecycle
from kigen.lifetimes.sweeps.sweep import group_runs
from kigen.plan.logical import SingleRow


def _one_slot(columns: pa.RecordBatch, rows: int) -> Ints:
    return np.zeros(rows, dtype=np.int64)


class SingleRowOperator(Operator):
    """Counts the live rows and hands them on unchanged."""

    hands_on_ends = True

    def __init__(self, node: SingleRow, task: OperatorContext) -> None:
        self.node = node
        self._input = Lifecycle(node.schema, _one_slot, task.signed, ())
        self._count = np.zeros(1, dtype=np.int64)

    def step(self, inputs: list[Message], now: int) -> Message:
        events = self._input.events(inputs[0], now)
        if len(events):
            runs = group_runs(events.slot, events.time)
            if bool((runs.cumulated(events.sign, self._count) > 1).any()):
                raise EvaluationError(
                    f"a scalar subquery returned more than one row at an instant: {self.node.text}; "
                    "aggregate its rows, or let its window hold one row, as in [ROWS 1]"
                )
        return inputs[0]

    def known_ends(self, inputs: list[Fills]) -> Fills:
        return inputs[0]

    @property
    def held(self) -> int:
        return self._input.held

    @property
    def kept_of_inputs(self) -> tuple[Lifecycle, ...]:
        return (self._input,)

    def state(self) -> State:
        return {"input": self._input.state(), "count": self._count}

    def load(self, state: State) -> None:
        self._input.load(state["input"])
        self._count = state["count"].copy()


SINGLE_ROW = OperatorSpec(SingleRow, SingleRowOperator, same_columns)

"""The node of a plan's part that runs on a node of its own, and ends when the whole query does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kigen.plan.logical.node import PlanNode, UnaryNode


@dataclass(frozen=True)
class Clocked(UnaryNode):
    """Hands on what its child gives. Its time also waits for the streams below `clocks`, and it ends with the last of
    them: they give no rows. The binder never makes it (kigen.placement.clocks does)."""

    hands_rows_on: ClassVar[bool] = True

    clocks: tuple[PlanNode, ...] = ()

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child, *self.clocks)

    @property
    def is_stream(self) -> bool:
        return self.child.is_stream

    def label(self) -> str:
        return "with the time of the query's other streams"

    def rows_text(self) -> str:
        return self.child.rows_text()

    def column_label(self, column: int) -> str:
        return self.child.column_label(column)

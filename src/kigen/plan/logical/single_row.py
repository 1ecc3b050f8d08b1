"""The node of a scalar sub-query: a relation that must not hold more than one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kigen.plan.estimates import Rates
from kigen.plan.logical.node import UnaryNode


@dataclass(frozen=True)
class SingleRow(UnaryNode):
    """Hands its rows on, and fails at the first instant at which there are two. `text` is the sub-query as written."""

    hands_rows_on: ClassVar[bool] = True

    text: str = field(default="", compare=False)

    def label(self) -> str:
        return "single row"

    def state_text(self, count: int) -> str:
        return "rows of a scalar sub-query"

    def column_label(self, column: int) -> str:
        return self.child.column_label(column)

    def rows_alive(self, rates: Rates) -> float:
        return 1.0

    def has_one_row(self) -> bool:
        return True

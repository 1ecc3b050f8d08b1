"""The node of `ON ERROR SKIP | INTO` on a query: it marks a plan in which rows that fail are left out.

The binder puts it at the root of such a query's relation, so that no rewrite rule moves a condition across it;
kigen.plan.rewrite.set_apart then replaces it. No operator runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kigen.plan.logical.app import Connector
from kigen.plan.logical.node import UnaryNode


def errors_name(query: str) -> str:
    """Returns the name of the query that gives the rows of another one that failed."""
    return f"{query}_errors"


@dataclass(frozen=True)
class SetApart(UnaryNode):
    hands_rows_on: ClassVar[bool] = True

    query: str
    into: Connector | None = None  # of ON ERROR INTO

    def column_label(self, column: int) -> str:
        return self.child.column_label(column)

    @property
    def is_windowed(self) -> bool:
        return self.child.is_windowed

    def has_one_row(self) -> bool:
        return self.child.has_one_row()

"""UNNEST as a join: a row for each element of a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kigen.plan.estimates import ENDLESS, Rates
from kigen.plan.logical.node import UnaryNode
from kigen.plan.types import Column, Schema

_ELEMENTS = 4.0  # of a list, for estimates


@dataclass(frozen=True)
class Unnest(UnaryNode):
    """Gives each row once per element of column `column`, with the element as one more column. A row whose list is NULL
    or empty gives none. The rows live as long as the row that they come from."""

    hands_rows_on: ClassVar[bool] = True

    column: int
    name: str = field(compare=False)  # of the elements; not compared, like the names of a Project

    @property
    def schema(self) -> Schema:
        element = self.child.schema[self.column].type.element
        assert element is not None, "the binder unnests lists only"
        return (*self.child.schema, Column(self.name, element))

    def label(self) -> str:
        return f"unnest {self.child.column_label(self.column)} as {self.name}"

    def column_label(self, column: int) -> str:
        return self.child.column_label(column) if column < len(self.child.schema) else self.name

    @property
    def is_windowed(self) -> bool:
        return self.child.is_windowed

    def rows_alive(self, rates: Rates) -> float:
        return min(ENDLESS, self.child.rows_alive(rates) * _ELEMENTS)

    def most_rows(self, rates: Rates) -> float:
        return min(ENDLESS, self.child.most_rows(rates) * _ELEMENTS)

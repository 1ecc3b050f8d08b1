"""Nodes of set operations: UNION ALL, DISTINCT, EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kigen.plan.estimates import ENDLESS, Rates
from kigen.plan.logical.node import BinaryNode, PlanNode, UnaryNode, counted, many_values
from kigen.plan.types import Schema


@dataclass(frozen=True)
class UnionAll(PlanNode):
    """Concatenates inputs of equal column types; the names come from the first."""

    hands_rows_on: ClassVar[bool] = True
    conditions_move_below: ClassVar[bool] = True

    inputs: tuple[PlanNode, ...]

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return self.inputs

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema

    def label(self) -> str:
        return "union all"

    def rows_alive(self, rates: Rates) -> float:
        return min(ENDLESS, sum(child.rows_alive(rates) for child in self.inputs))

    def most_rows(self, rates: Rates) -> float:
        return min(ENDLESS, sum(child.most_rows(rates) for child in self.inputs))


@dataclass(frozen=True)
class OuterJoin(UnionAll):
    """An outer join: the pairs, and the rows without a partner (kigen.plan.binder.from_clause.partners). `text` says
    for people what was written."""

    text: str = field(default="outer join", compare=False)

    def label(self) -> str:
        return self.text


class _KeepsDifferentRows(PlanNode):
    """Common parts of the nodes whose operators count equal rows: DISTINCT, EXCEPT, INTERSECT."""

    conditions_move_below: ClassVar[bool] = True

    def rows_text(self) -> str:
        return f"versions of {type(self).__name__.upper()}"

    def state_text(self, count: int) -> str:
        return f"{type(self).__name__.upper()}: {counted(count, 'row')}"

    def kept_for_ever(self, stream: str) -> str | None:
        if not many_values(self.schema):
            return None
        return f"{type(self).__name__.upper()} keeps every different row of {stream} for ever"


@dataclass(frozen=True)
class Distinct(_KeepsDifferentRows, UnaryNode):
    def has_one_row(self) -> bool:
        return self.child.has_one_row()


@dataclass(frozen=True)
class _SetOperation(_KeepsDifferentRows, BinaryNode):
    all: bool

    @property
    def schema(self) -> Schema:
        return self.left.schema

    def label(self) -> str:
        return type(self).__name__.lower() + (" all" if self.all else "")


@dataclass(frozen=True)
class Except(_SetOperation):
    def has_one_row(self) -> bool:
        return self.left.has_one_row()


@dataclass(frozen=True)
class Intersect(_SetOperation):
    def rows_alive(self, rates: Rates) -> float:
        return min(self.left.rows_alive(rates), self.right.rows_alive(rates))

    def most_rows(self, rates: Rates) -> float:
        return min(self.left.most_rows(rates), self.right.most_rows(rates))

    def has_one_row(self) -> bool:
        return self.left.has_one_row() or self.right.has_one_row()


@dataclass(frozen=True)
class Matching(_KeepsDifferentRows, BinaryNode):
    """The rows of the left input that occur in the right one (`occurs`), or that do not, as often as in the left
    input."""

    occurs: bool

    @property
    def schema(self) -> Schema:
        return self.left.schema

    def label(self) -> str:
        return f"rows {'with' if self.occurs else 'without'} a partner"

    def rows_text(self) -> str:
        return self.label()

    def state_text(self, count: int) -> str:
        return f"{self.label()}: {counted(count, 'different row')}"

    def kept_for_ever(self, stream: str) -> str | None:
        return f"a join keeps every different row of {stream} for ever" if many_values(self.schema) else None

    def has_one_row(self) -> bool:
        return self.left.has_one_row()

"""Functions OVER (PARTITION BY ... ORDER BY ...): each row with its place among the rows of its group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kigen.plan.logical.node import UnaryNode, counted
from kigen.plan.logical.terms import SortKey
from kigen.plan.types import Column, Schema, Type


class OverFunc(Enum):
    ROW_NUMBER = "ROW_NUMBER"
    RANK = "RANK"
    DENSE_RANK = "DENSE_RANK"
    LAG = "LAG"
    LEAD = "LEAD"


@dataclass(frozen=True)
class OverCall:
    """A function of a row's place. LAG and LEAD give column `arg` of the row `distance` places before or after; where
    there is none, column `default` of the row itself, or NULL."""

    func: OverFunc
    type: Type
    arg: int | None = None
    distance: int = 1
    default: int | None = None


@dataclass(frozen=True)
class Over(UnaryNode):
    """Adds a column for each call to the columns of its child. Groups are the rows with equal columns `by`. The order
    is complete: all columns are in it; the first `keys` of them are the keys that the user wrote, in which rows with
    one rank are equal."""

    by: tuple[int, ...]
    order: tuple[SortKey, ...]
    keys: int
    calls: tuple[OverCall, ...]

    @property
    def schema(self) -> Schema:
        return self.child.schema + tuple(Column(call.func.value, call.type) for call in self.calls)

    def label(self) -> str:
        names = self._names()
        text = ", ".join(self._call(call) for call in self.calls)
        text += f" by {', '.join(names[column] for column in self.by)}" if self.by else ""
        keys = [names[key.column] + (" desc" if key.descending else "") for key in self.order[: self.keys]]
        return f"{text} in order of {', '.join(keys) if keys else 'all columns'}"

    def column_label(self, column: int) -> str:
        width = len(self.child.schema)
        return self.child.column_label(column) if column < width else self._call(self.calls[column - width])

    def _names(self) -> list[str]:
        return [self.child.column_label(column) for column in range(len(self.child.schema))]

    def _call(self, call: OverCall) -> str:
        if call.arg is None:
            return f"{call.func.value.lower()}()"
        names = self._names()
        text = names[call.arg]
        text += f", {call.distance}" if call.distance != 1 or call.default is not None else ""
        text += f", {names[call.default]}" if call.default is not None else ""
        return f"{call.func.value.lower()}({text})"

    def rows_text(self) -> str:
        return f"versions of {self._calls()} OVER"

    def state_text(self, count: int) -> str:
        return f"{self._calls()} OVER: {counted(count, 'different row')}"

    def _calls(self) -> str:
        return ", ".join(dict.fromkeys(call.func.value for call in self.calls))

    def kept_for_ever(self, stream: str) -> str | None:
        return f"{self._calls()} OVER keeps every different row of {stream} for ever"

    def has_one_row(self) -> bool:
        return self.child.has_one_row()

"""ORDER BY ... LIMIT: the relation of the first rows."""

from __future__ import annotations

from dataclasses import dataclass

from kigen.plan.estimates import Rates
from kigen.plan.logical.node import UnaryNode, counted
from kigen.plan.logical.terms import SortKey


@dataclass(frozen=True)
class TopN(UnaryNode):
    """Keeps the rows number `offset` to `offset + limit - 1` of the order, of each group of equal columns `by`. The
    order is complete: all columns are in it."""

    order: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    by: tuple[int, ...] = ()

    def label(self) -> str:
        names = [self.child.column_label(column) for column in range(len(self.child.schema))]
        keys = [names[key.column] + (" desc" if key.descending else "") for key in self.order]
        text = f"first {self.limit}"
        text += f" by {', '.join(names[column] for column in self.by)}" if self.by else ""
        text += f" after {self.offset}" if self.offset else ""
        return f"{text} in order of {', '.join(keys)}"

    def column_label(self, column: int) -> str:
        return self.child.column_label(column)

    def state_text(self, count: int) -> str:
        return f"ORDER BY ... LIMIT: {counted(count, 'different row')}"

    def kept_for_ever(self, stream: str) -> str | None:
        return f"ORDER BY ... LIMIT keeps every different row of {stream} for ever"

    def rows_alive(self, rates: Rates) -> float:
        below = self.child.rows_alive(rates)
        return below if self.by else min(below, float(self.limit))

    def most_rows(self, rates: Rates) -> float:
        below = self.child.most_rows(rates)
        return below if self.by else min(below, float(self.limit))

    def has_one_row(self) -> bool:
        return self.child.has_one_row() or (self.limit == 1 and not self.by)

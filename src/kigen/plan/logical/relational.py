"""Nodes that turn relations into a relation: filters, projections, joins and aggregates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from kigen.plan.estimates import ENDLESS, KEPT_SHARE, Rates, joined_rows
from kigen.plan.logical.node import BinaryNode, PlanNode, UnaryNode, counted, many_values
from kigen.plan.logical.terms import Agg, AggFunc, Comparison, Expr, Place
from kigen.plan.types import Column, Schema


@dataclass(frozen=True)
class Filter(UnaryNode):
    hands_rows_on: ClassVar[bool] = True
    conditions_move_below: ClassVar[bool] = True

    predicate: Expr  # BOOLEAN; a row stays if it is true

    def label(self) -> str:
        return f"filter {_named(self.predicate, self.child)}"

    def column_label(self, column: int) -> str:
        return self.child.column_label(column)

    @property
    def is_windowed(self) -> bool:
        return self.child.is_windowed

    def rows_alive(self, rates: Rates) -> float:
        return max(1.0, self.child.rows_alive(rates) * KEPT_SHARE)

    def has_one_row(self) -> bool:
        return self.child.has_one_row()


@dataclass(frozen=True)
class Project(UnaryNode):
    hands_rows_on: ClassVar[bool] = True

    exprs: tuple[Expr, ...]
    # Names are not compared, like `Expr.text`: a query takes its own names from its own root.
    names: tuple[str, ...] = field(compare=False)

    @property
    def schema(self) -> Schema:
        return tuple(Column(name, expr.type) for name, expr in zip(self.names, self.exprs, strict=True))

    def label(self) -> str:
        return "project " + ", ".join(_item(e, n, self.child) for e, n in zip(self.exprs, self.names, strict=True))

    @property
    def is_windowed(self) -> bool:
        return self.child.is_windowed

    def has_one_row(self) -> bool:
        return self.child.has_one_row()


@dataclass(frozen=True)
class Join(BinaryNode):
    """An inner join; its columns are those of left, then right. Keys are pairs of columns of one type (NULL matches
    nothing); a join without keys is a cross join. `residual` is over the joined columns. `comparisons` hold for every
    row for which the residual is true: an index may use them to find candidates, and the residual decides."""

    left_keys: tuple[int, ...] = ()
    right_keys: tuple[int, ...] = ()
    residual: Expr | None = None
    comparisons: tuple[Comparison, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema

    def label(self) -> str:
        """Lists the keys after `on`, the comparisons that an index may use after `by`, the conditions after `where`.
        Columns have the names that they have on their own side."""
        left, right = self.left.schema, self.right.schema
        keys = [f"{left[a].name} = {right[b].name}" for a, b in zip(self.left_keys, self.right_keys, strict=True)]
        ordered = [f"{left[c.left].name} {c.op} {right[c.right].name}" for c in self.comparisons]
        text = "join" if keys or ordered else "cross join"
        text += f" on {' and '.join(keys)}" if keys else ""
        text += f" by {' and '.join(ordered)}" if ordered else ""
        return text if self.residual is None else f"{text} where {self.residual.text}"

    def rows_text(self) -> str:
        return f"pairs of {self.label()}"

    def state_text(self, count: int) -> str:
        return f"pairs of {self.label()} that are still alive"

    def kept_for_ever(self, stream: str) -> str | None:
        return f"a join keeps every tuple of {stream} for ever"

    def rows_alive(self, rates: Rates) -> float:
        how = "equal" if self.left_keys else "ordered" if self.comparisons else "cross"
        return joined_rows(self.left.rows_alive(rates), self.right.rows_alive(rates), how)

    def most_rows(self, rates: Rates) -> float:
        return min(ENDLESS, self.left.most_rows(rates) * self.right.most_rows(rates))


@dataclass(frozen=True)
class Aggregate(PlanNode):
    """Groups and aggregates; its columns are the keys, then the aggregates. A global aggregate (no keys) has one row
    while any of `presence`, the windowed streams below it, holds a tuple; with keys, `presence` is empty."""

    child: PlanNode
    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    presence: tuple[PlanNode, ...] = ()  # windows, or relations that were received from them

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child, *self.presence)

    @property
    def schema(self) -> Schema:
        keys = tuple(self.child.schema[k] for k in self.keys)
        return keys + tuple(Column(a.func.value, a.type) for a in self.aggs)

    @property
    def shown_children(self) -> tuple[PlanNode, ...]:
        """Returns the input, and the presence windows that are not shown below it."""
        below = set(self.child.walk()) if self.presence else set()
        return (self.child, *(window for window in self.presence if window not in below))

    def label(self) -> str:
        names = [c.name for c in self.child.schema]
        calls = [self._call(agg) for agg in self.aggs]
        keys = f" by {', '.join(names[k] for k in self.keys)}" if self.keys else ""
        return f"aggregate {', '.join(calls)}{keys}" if calls else f"group{keys}"

    def column_label(self, column: int) -> str:
        """Names an aggregate by its function and argument, not by the function alone."""
        return self.schema[column].name if column < len(self.keys) else self._call(self.aggs[column - len(self.keys)])

    def _call(self, agg: Agg) -> str:
        name = agg.func.value.lower()
        if agg.arg is None:
            return name
        schema = self.child.schema
        text = f"{'distinct ' if agg.distinct else ''}{schema[agg.arg].name}"
        if agg.func in (AggFunc.ARG_MIN, AggFunc.ARG_MAX):
            text += f", {schema[agg.order[0].column].name}"
        if agg.parameter is not None:
            text += f", {agg.parameter!r}"
        where = "" if agg.condition is None else f" where {schema[agg.condition].name}"
        return f"{name}({text}){where}"

    def rows_text(self) -> str:
        return f"versions of {self._grouping()}"

    def state_text(self, count: int) -> str:
        return f"{self._grouping()}: {counted(count, 'group')}"

    def _grouping(self) -> str:
        names = [self.child.schema[k].name for k in self.keys]
        return f"GROUP BY {', '.join(names)}" if names else "the aggregate over all"

    def kept_for_ever(self, stream: str) -> str | None:
        keys = self.schema[: len(self.keys)]
        if not many_values(keys):
            return None
        names = ", ".join(dict.fromkeys(c.name for c in keys))
        return f"GROUP BY keeps a group for every value of {names} that {stream} ever had"

    def rows_alive(self, rates: Rates) -> float:
        return max(1.0, self.child.rows_alive(rates) ** 0.5) if self.keys else 1.0

    def most_rows(self, rates: Rates) -> float:
        return self.child.most_rows(rates) if self.keys else 1.0

    def has_one_row(self) -> bool:
        return not self.keys


def _item(expr: Expr, name: str, child: PlanNode) -> str:
    text = _named(expr, child)
    return text if text == name else f"{text} as {name}"


def _named(expr: Expr, child: PlanNode) -> str:
    """Writes the expression over the child's names: a bare column has the name that the child gives it now, not the
    name that the user once wrote."""
    if expr.column is not None:
        return child.column_label(expr.column)
    cast = re.fullmatch(r"CAST\(c(\d+) AS (\w+)\)", expr.sql)
    if cast is not None:
        return f"{child.column_label(int(cast[1]))}::{cast[2]}"
    return expr.text

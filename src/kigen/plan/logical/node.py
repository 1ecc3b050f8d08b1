"""Defines the base class of plan nodes: everything that explain, estimates, warnings and memory reports ask of a node.

A new node class defines `schema` and `children`. Every other member has a default that is right for a simple operator;
a node overrides those for which it is not. Nothing outside the class has to know the new node
(docs/how-to/add-an-operator.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kigen.plan.estimates import DEFAULT_RATE, Rates
from kigen.plan.types import Column, Schema, Type


@dataclass(frozen=True)
class PlanNode:
    """Base of all plan nodes."""

    hands_rows_on: ClassVar[bool] = False  # whether its rows are those of its children, with the same lifetimes
    # Whether a condition over its columns may be tested on every child instead (kigen.plan.rewrite.push_filters).
    conditions_move_below: ClassVar[bool] = False

    # --- structure ----------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """Returns the output columns."""
        raise AttributeError("schema")

    @property
    def children(self) -> tuple[PlanNode, ...]:
        """Returns the nodes whose output the operator reads."""
        return ()

    @property
    def is_stream(self) -> bool:
        """Returns whether the node produces a stream (tuples with a time) and not a relation (tuples with a
        lifetime)."""
        return False

    def walk(self) -> Iterator[PlanNode]:
        """Yields this node and all below it, children first, a shared sub-plan once."""
        seen: set[PlanNode] = set()

        def visit(node: PlanNode) -> Iterator[PlanNode]:
            if node in seen:
                return
            for child in node.children:
                yield from visit(child)
            if node not in seen:
                seen.add(node)
                yield node

        yield from visit(self)

    @property
    def acts_periodically(self) -> bool:
        """Returns whether the operator produces rows at every multiple of a span, so that it never ends by itself."""
        return False

    # --- words --------------------------------------------------------------------------------------------------------

    def label(self) -> str:
        """Says in one line what the node does, over the names of its input's columns, as `explain` shows it."""
        return type(self).__name__.lower()

    def column_label(self, column: int) -> str:
        """Names an output column in the labels of the nodes above."""
        return self.schema[column].name

    def rows_text(self) -> str:
        """Names the rows that the node gives, in the words of the app file: `bid [UNBOUNDED]`, `versions of GROUP BY
        auction`. Memory reports say with it what fills an operator."""
        if self.hands_rows_on:
            return " and ".join(dict.fromkeys(child.rows_text() for child in self.children))
        return f"rows of {self.label()}"

    def state_text(self, count: int) -> str:
        """Names what the operator keeps apart from the tuples of its inputs: `GROUP BY auction: 120,345 groups`."""
        return f"rows of {self.label()} that are still alive"

    @property
    def shown_children(self) -> tuple[PlanNode, ...]:
        """Returns the nodes that `explain` shows below this one."""
        return self.input_relations

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def input_relations(self) -> tuple[PlanNode, ...]:
        """Returns the relations that the operator keeps tuples of, in the order of the operator's `kept_of_inputs`."""
        return self.children

    @property
    def is_windowed(self) -> bool:
        """Returns whether the rows are the tuples of a window, perhaps filtered and projected."""
        return False

    @property
    def is_unbounded(self) -> bool:
        """Returns whether an UNBOUNDED window lies below, so that kept rows never leave by themselves."""
        return any(below.is_unbounded for below in self.input_relations)

    def kept_for_ever(self, stream: str) -> str | None:
        """Says what the operator keeps for ever of `stream` in an UNBOUNDED window; None if its state is bounded."""
        return None

    # --- sizes (kigen.plan.estimates) ---------------------------------------------------------------------------------

    def rows_alive(self, rates: Rates) -> float:
        """Estimates how many rows are alive at a time; at least 1."""
        return self.children[0].rows_alive(rates) if self.children else DEFAULT_RATE

    def most_rows(self, rates: Rates) -> float:
        """Estimates how many rows are alive at a time if no filter, key or group removes any."""
        return self.children[0].most_rows(rates) if self.children else DEFAULT_RATE

    def has_one_row(self) -> bool:
        """Returns whether the relation never holds more than one row."""
        return False


@dataclass(frozen=True)
class UnaryNode(PlanNode):
    """A node with one child and, unless overridden, the child's columns."""

    child: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    @property
    def schema(self) -> Schema:
        return self.child.schema


@dataclass(frozen=True)
class BinaryNode(PlanNode):
    """A node with two children."""

    left: PlanNode
    right: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)


def counted(count: int, one: str) -> str:
    """Writes a number with its noun: 1 group, 2 groups."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def many_values(columns: Iterable[Column]) -> bool:
    """Returns whether the columns can have ever more different values, as all but BOOLEAN columns can."""
    return any(column.type is not Type.BOOLEAN for column in columns)

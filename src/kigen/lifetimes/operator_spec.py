"""How an operator makes itself known to the kernel: the plan node it runs, how it is built, and the columns it reads.

Each operator file ends with one `OperatorSpec` per plan node, and `kigen.lifetimes.registry` lists them. What an
operator does while it runs is in its class (`kigen.lifetimes.operator.Operator`); what people read about it is in its
plan node (`kigen.plan.logical.node.PlanNode`). docs/how-to/add-an-operator.md explains the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kigen.lifetimes.operator import Operator
from kigen.plan.logical import PlanNode

Node = TypeVar("Node", bound=PlanNode)
Columns = set[int]


@dataclass(frozen=True)
class OperatorContext:
    """What an operator knows about the task in which it runs."""

    number: int  # of the operator, unique among operators that exchange tuples: its holders begin with it
    signed: bool  # negative-tuple method
    needed: Columns  # output columns that something above reads
    secret: int = 0  # for keys of rows (kigen.lifetimes.keys.row_keys)
    replicated: bool = False  # another replica computes the same, and must give the same rows in the same order


def all_columns(node: PlanNode, needed: Columns) -> list[Columns]:
    """Needs every column of every child, whatever is needed of the operator itself."""
    return [set(range(len(child.schema))) for child in node.children]


def same_columns(node: PlanNode, needed: Columns) -> list[Columns]:
    """Needs of every child the columns that are needed of the operator itself."""
    return [set(needed) for _ in node.children]


@dataclass(frozen=True)
class OperatorSpec(Generic[Node]):
    """Connects a class of plan nodes with the operator that runs it."""

    node: type[Node]
    build: Callable[[Node, OperatorContext], Operator]
    # The columns that the operator reads of each child, given the columns that are needed of the operator itself.
    needs: Callable[[Node, Columns], list[Columns]] = all_columns
    # Whether it runs directly after its child, because the child's message has a form that cannot be cut in time.
    runs_after_child: bool = False

"""Turns a select list into columns of a node: leaves out projections that change nothing and makes names unique."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Span
from kigen.plan.logical import Expr, PlanNode, Project


@dataclass
class Item:
    """A select item: an expression, or one of the columns that * stands for."""

    node: exp.Expr | None
    span: Span
    name: str | None
    position: int | None = None


def project(node: PlanNode, exprs: list[Expr], names: tuple[str, ...]) -> PlanNode:
    """Returns the select list as a node above `node`; the node itself if only names would change."""
    if len(exprs) == len(node.schema) and all(e.column == i for i, e in enumerate(exprs)):
        return node
    return Project(node, tuple(exprs), names)


def unique(names: list[str]) -> tuple[str, ...]:
    """Renames later duplicates to name_1, name_2, ... as DuckDB does when it creates a table."""
    taken: set[str] = set()
    result: list[str] = []
    for name in names:
        new, count = name, 0
        while new.lower() in taken:
            count += 1
            new = f"{name}_{count}"
        taken.add(new.lower())
        result.append(new)
    return tuple(result)

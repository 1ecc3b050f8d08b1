"""A select list as the columns of a node: projections that change nothing are left out, names are made unique."""

from __future__ import annotations

from kigen.plan.logical import Expr, PlanNode, Project


def project(node: PlanNode, exprs: list[Expr], names: tuple[str, ...]) -> PlanNode:
    """The select list as a node; left out where it changes nothing but names."""
    if len(exprs) == len(node.schema) and all(e.column == i for i, e in enumerate(exprs)):
        return node
    return Project(node, tuple(exprs), names)


def unique(names: list[str]) -> tuple[str, ...]:
    """Later duplicates become name_1, name_2, ... as in a table DuckDB creates."""
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

"""Replaces the children of a node. Plans are immutable, so a changed sub-plan means new nodes up to the root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from kigen.plan.logical import PlanNode


def with_children(node: PlanNode, change: Callable[[PlanNode], PlanNode]) -> PlanNode:
    """Returns the node with every child replaced by `change(child)`; the node itself if nothing changed."""
    changes: dict[str, Any] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, PlanNode):
            changes[part.name] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], PlanNode):
            changes[part.name] = tuple(change(child) for child in value)
    return node if all(_same(changes[name], getattr(node, name)) for name in changes) else replace(node, **changes)


def _same(new: Any, old: Any) -> bool:
    return new is old or (isinstance(new, tuple) and all(a is b for a, b in zip(new, old, strict=True)))

"""Names the state of an operator by a digest of its sub-plan.

Invariant: two nodes have one digest exactly if they are equal, whatever else their task computes. A field that has its
default is left out, so a field that a later version adds changes no digest. Cost: linear in the size of the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from kigen.plan.logical import PlanNode
from kigen.plan.types import Type


def digests_of(nodes: Iterable[PlanNode]) -> dict[PlanNode, str]:
    """Returns the digest of each node."""
    known: dict[PlanNode, str] = {}
    return {node: _digest(node, known) for node in nodes}


def _digest(node: PlanNode, known: dict[PlanNode, str]) -> str:
    if node not in known:
        known[node] = hashlib.blake2b(_fields(node, known).encode(), digest_size=12).hexdigest()
    return known[node]


def _text(value: Any, known: dict[PlanNode, str]) -> str:
    if isinstance(value, PlanNode):
        return _digest(value, known)
    if isinstance(value, Type):
        return f"Type.{value.value}"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple | list):
        return f"({', '.join(_text(one, known) for one in value)})"
    return _fields(value, known) if is_dataclass(value) else repr(value)


def _fields(value: Any, known: dict[PlanNode, str]) -> str:
    compared = [f for f in fields(value) if f.compare and getattr(value, f.name) != _default(f)]
    return f"{type(value).__name__}({', '.join(f'{f.name}={_text(getattr(value, f.name), known)}' for f in compared)})"


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default

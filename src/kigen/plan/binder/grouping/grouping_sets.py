"""Grouping sets: what GROUPING SETS, ROLLUP and CUBE stand for, and the plan of several sets.

The plan is one Aggregate per set over the same rows, united; a key that a set lacks is NULL in its rows. Invariant: the
sets are those of SQL, with their repetitions. Cost: each set is an aggregate of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Aggregate, Expr, PlanNode, Project, UnionAll
from kigen.plan.types import Type

MOST_SETS = 64
KeySet = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Mark:
    """A call of GROUPING(key, ...): a bit per key, the last key's the lowest, set where the row's set lacks the key."""

    keys: tuple[int, ...]

    def value(self, given: Sequence[int]) -> Expr:
        bits = sum(1 << place for place, key in enumerate(reversed(self.keys)) if key not in given)
        return Expr(f"CAST({bits} AS BIGINT)", Type.BIGINT, str(bits))


def has_sets(nodes: Sequence[exp.Expr]) -> bool:
    """Returns whether GROUP BY holds more than keys."""
    return any(isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube) for node in nodes)


def number_of_sets(nodes: Sequence[exp.Expr]) -> int:
    """Returns how many sets GROUP BY stands for, without making them."""
    return math.prod(_count(node) for node in nodes)


def _count(node: exp.Expr) -> int:
    if isinstance(node, exp.Rollup):
        return len(node.expressions) + 1
    if isinstance(node, exp.Cube):
        return 1 << len(node.expressions)
    return sum(map(_count, node.expressions)) if isinstance(node, exp.GroupingSets) else 1


def sets_of(nodes: Sequence[exp.Expr]) -> list[KeySet]:
    """Returns the sets that the elements of GROUP BY stand for: each combination of one set of every element."""
    return [tuple(key for part in chosen for key in part) for chosen in product(*(_sets(node) for node in nodes))]


def _sets(node: exp.Expr) -> list[KeySet]:
    parts = [_keys(part) for part in node.expressions] if isinstance(node, exp.Rollup | exp.Cube) else []
    if isinstance(node, exp.Rollup):
        return [_joined(parts[:count]) for count in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        return [_joined(chosen) for count in range(len(parts), -1, -1) for chosen in combinations(parts, count)]
    if isinstance(node, exp.GroupingSets):
        return [found for part in node.expressions for found in _sets(part)]
    return [_keys(node)]


def _keys(node: exp.Expr) -> KeySet:
    """Returns the keys of `(a, b)`, `(a)`, `a` or `()`."""
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this,) if isinstance(node, exp.Paren) else (node,)


def _joined(parts: Sequence[KeySet]) -> KeySet:
    return tuple(key for part in parts for key in part)


def united(
    sets: Sequence[tuple[int, ...]], made: Sequence[Aggregate], keys: list[Expr], calls: Sequence[object]
) -> PlanNode:
    """Returns the rows of all sets, with all keys and then what `calls` lists: aggregates, and Marks."""
    parts = [_laid_out(given, node, keys, calls) for given, node in zip(sets, made, strict=True)]
    return parts[0] if len(parts) == 1 else UnionAll(tuple(parts))


def _laid_out(given: tuple[int, ...], node: Aggregate, keys: list[Expr], calls: Sequence[object]) -> PlanNode:
    exprs: list[Expr] = []
    names: list[str] = []
    for i, key in enumerate(keys):
        null = Expr(f"CAST(NULL AS {key.type.duckdb})", key.type, "NULL")
        exprs.append(bare(node.schema, given.index(i)) if i in given else null)
        names.append(key.text)
    at = len(given)
    for call in calls:
        if isinstance(call, Mark):
            exprs.append(call.value(given))
            names.append("GROUPING")
        else:
            exprs.append(bare(node.schema, at))
            names.append(node.schema[at].name)
            at += 1
    return Project(node, tuple(exprs), tuple(names))

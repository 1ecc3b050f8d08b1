"""Builds outer, semi and anti joins out of joins and set operations: no operator of the kernel has to know them.

A row is without a partner while no live row of the other side satisfies the whole condition with it. How that is found
depends on the condition:

| condition | rows without a partner |
|---|---|
| keys only | the join of the rows with the keys that are alive on this side EXCEPT those alive on the other side |
| keys and more | the rows that do not occur among the pairs of the inner join (`Matching`) |

Both follow from counts at every instant, so a row comes back when its last partner expires, and partners that come at
the row's own instant leave no trace of it. Invariant: lifetimes are maximal intervals with or without a partner.
Conditions on one side alone split that side: rows that fail them, or have a NULL key, never have a partner. Cost: an
outer join on keys keeps each row twice and each key once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kigen.plan.expressions.columns import all_of, bare
from kigen.plan.join_building import join_of
from kigen.plan.logical import Distinct, Except, Expr, Filter, Matching, OuterJoin, Place, PlanNode, Project, UnionAll
from kigen.plan.types import Column, Schema, Type

_ONE_KEY = Expr("CAST(0 AS BIGINT)", Type.BIGINT, "0")  # of a condition without keys: all rows have it


@dataclass(frozen=True)
class Side:
    """One input of a join with partners: its rows that may have a partner, and those that never have one (None: there
    are no such rows)."""

    schema: Schema
    matchable: PlanNode
    alone: PlanNode | None
    keys: tuple[Expr, ...]

    @staticmethod
    def of(node: PlanNode, keys: Sequence[Expr], own: Sequence[Expr]) -> Side:
        """Splits a side. `own` are the conditions on this side alone."""
        schema = node.schema
        nulls = [Expr(f"({key.sql}) IS NULL", Type.BOOLEAN, f"{key.text} IS NULL") for key in keys]
        fails = [Expr(f"({c.sql}) IS NOT TRUE", Type.BOOLEAN, f"({c.text}) IS NOT TRUE") for c in own]
        alone = Filter(node, _any_of([*fails, *nulls])) if fails or nulls else None
        return Side(schema, Filter(node, all_of(own)) if own else node, alone, tuple(keys))

    def with_keys(self) -> PlanNode:
        """Returns the rows that may have a partner, without those that have a NULL key. Joins drop them by
        themselves."""
        tests = [Expr(f"({key.sql}) IS NOT NULL", Type.BOOLEAN, f"{key.text} IS NOT NULL") for key in self.keys]
        return Filter(self.matchable, all_of(tests)) if tests else self.matchable

    def key_rows(self) -> PlanNode:
        """Returns the keys of the rows that may have a partner."""
        keys = self.keys or (_ONE_KEY,)
        return Project(self.matchable, keys, tuple(key.text for key in keys))

    def joined_by_key(self, keys: PlanNode) -> PlanNode:
        """Returns the rows whose key is in the relation, with the lifetimes of both."""
        mine = self.keys or (_ONE_KEY,)
        pairs = [(key, bare(keys.schema, i)) for i, key in enumerate(mine)]
        return chosen(join_of(self.matchable, keys, pairs, ()), range(len(self.schema)), self.schema)


@dataclass(frozen=True)
class Partners:
    """Two sides and what connects them: the keys, and conditions over the columns of left, then right."""

    left: Side
    right: Side
    conditions: tuple[Expr, ...]
    place: Place | None = None  # in the text, for warnings

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema

    def pairs(self) -> PlanNode:
        """Returns the inner join, with the columns of left, then right."""
        keys = list(zip(self.left.keys, self.right.keys, strict=True))
        join = join_of(self.left.matchable, self.right.matchable, keys, self.conditions)
        width, extra = len(self.left.schema), len(join.left.schema) - len(self.left.schema)
        places = [i if i < width else i + extra for i in range(len(self.schema))]
        return chosen(replace(join, place=self.place), places, self.schema)

    def semi(self) -> PlanNode:
        """Returns the left rows that have a partner: each once, however many partners it has."""
        if not self.conditions:
            return self.left.joined_by_key(Distinct(self.right.key_rows()))
        return Matching(self.left.with_keys(), self._of_pairs(0), True)

    def anti(self, side: int = 0) -> list[PlanNode]:
        """Returns the rows of a side that have no partner: those that might have one, and those that never have one."""
        mine, other = (self.left, self.right) if side == 0 else (self.right, self.left)
        if not self.conditions:
            found = mine.joined_by_key(Except(mine.key_rows(), other.key_rows(), False))
        else:
            found = Matching(mine.with_keys(), self._of_pairs(side), False)
        return [found] if mine.alone is None else [found, mine.alone]

    def _of_pairs(self, side: int) -> PlanNode:
        """Returns the columns of one side of the pairs."""
        width = len(self.left.schema)
        columns = range(width) if side == 0 else range(width, len(self.schema))
        return chosen(self.pairs(), columns, (self.left, self.right)[side].schema)

    def outer(self, kind: str) -> PlanNode:
        """Returns the LEFT, RIGHT or FULL join: the pairs, and the rows without a partner beside NULLs."""
        parts = [self.pairs()]
        width = len(self.left.schema)
        if kind in ("LEFT", "FULL"):
            parts += [self._padded(node, range(width)) for node in self.anti(0)]
        if kind in ("RIGHT", "FULL"):
            parts += [self._padded(node, range(width, len(self.schema))) for node in self.anti(1)]
        return OuterJoin(tuple(parts), f"{kind.lower()} join{self._text()}")

    def _padded(self, node: PlanNode, columns: range) -> PlanNode:
        if isinstance(node, Project) and [e.column for e in node.exprs] == list(range(len(node.exprs))):
            node = node.child  # it only leaves columns out
        exprs = [bare(node.schema, i - columns.start) if i in columns else null(c) for i, c in enumerate(self.schema)]
        return Project(node, tuple(exprs), tuple(c.name for c in self.schema))

    def _text(self) -> str:
        keys = [f"{a.text} = {b.text}" for a, b in zip(self.left.keys, self.right.keys, strict=True)]
        text = f" on {' and '.join(keys)}" if keys else ""
        return f"{text} where {all_of(self.conditions).text}" if self.conditions else text


def null(column: Column) -> Expr:
    """Returns NULL of a column's type."""
    return Expr(f"CAST(NULL AS {column.type.duckdb})", column.type, "NULL")


def together(parts: Sequence[PlanNode]) -> PlanNode:
    return parts[0] if len(parts) == 1 else UnionAll(tuple(parts))


def chosen(node: PlanNode, columns: Sequence[int], schema: Schema) -> PlanNode:
    """Returns the given columns of a node, with the names of a schema; the node itself if these are its columns."""
    if list(columns) == list(range(len(node.schema))):
        return node
    return Project(node, tuple(bare(node.schema, i) for i in columns), tuple(c.name for c in schema))


def _any_of(conditions: Sequence[Expr]) -> Expr:
    if len(conditions) == 1:
        return conditions[0]
    texts = [c.text for c in conditions]
    return Expr(" OR ".join(f"({c.sql})" for c in conditions), Type.BOOLEAN, " OR ".join(texts))

"""The work with tuples and pairs that all joins share, however they keep their sides (kigen.lifetimes.joins.join,
kigen.lifetimes.joins.sliced_join)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kigen.lifetimes.blocks import Block, Mask, absent
from kigen.lifetimes.chunks import Chunk
from kigen.lifetimes.expressions.evaluation import has_null, is_true
from kigen.lifetimes.joins.stretches import Keyed
from kigen.lifetimes.keys.row_keys import equal_rows, one_to_one, row_keys
from kigen.lifetimes.operator import Operator
from kigen.plan.expressions.columns import columns_of
from kigen.plan.logical import Join
from kigen.plan.types import arrow_schema


@dataclass(frozen=True)
class JoinScope:
    """What a join knows of its task: the columns of its pairs that something above reads (None: all), and the secret
    for keys."""

    needed: set[int] | None = None
    secret: int = 0


class Pairing(Operator):
    """Base of joins. Columns that neither the operators above nor the join itself read are not kept. Equal keys are
    confirmed by the key columns where they might be equal by chance."""

    def __init__(self, node: Join, scope: JoinScope | None = None) -> None:
        scope = scope or JoinScope()
        self.node, self._secret = node, scope.secret
        self._schema = arrow_schema(node.schema)
        self._keys = (node.left_keys, node.right_keys)
        width = len(node.left.schema)
        exact = one_to_one(tuple(node.left.schema[k] for k in node.left_keys))
        self._confirmed = () if exact else tuple(zip(node.left_keys, (width + k for k in node.right_keys), strict=True))
        used = set(range(len(node.schema)))
        if scope.needed is not None:
            used = scope.needed | joined_columns(node) | {c for pair in self._confirmed for c in pair}
        self._kept = sorted(c for c in used if c < width), sorted(c - width for c in used if c >= width)
        self._kept_schemas = (
            tuple(node.left.schema[c] for c in self._kept[0]),
            tuple(node.right.schema[c] for c in self._kept[1]),
        )

    def _keyed(self, block: Block, side: int) -> Keyed:
        """Returns the tuples that can match at all, with their keys."""
        keys = self._keys[side]
        null = has_null(block.columns, keys)
        if bool(null.any()):
            block = block.filter(~null)
        chunk = Chunk(self._narrow(block.columns, side), block.start, block.end, block.holder)
        return Keyed(chunk, row_keys(block.columns, len(block), keys, self._secret))

    def _narrow(self, columns: pa.RecordBatch, side: int) -> pa.RecordBatch:
        kept = self._kept[side]
        if len(kept) == columns.num_columns:
            return columns  # all of them are kept, or they are narrow already
        return columns.select(kept).rename_columns([f"c{i}" for i in range(len(kept))])

    def _columns(self, left: pa.RecordBatch, right: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        """Returns the columns of pairs, all in their places."""
        width = len(self.node.left.schema)
        made = dict(
            zip([*self._kept[0], *(width + c for c in self._kept[1])], left.columns + right.columns, strict=True)
        )
        arrays = [made[i] if i in made else absent(field.type, rows) for i, field in enumerate(self._schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _passes(self, columns: pa.RecordBatch, rows: int) -> Mask | None:
        """Returns which pairs of equal 64-bit keys are pairs of the join; None if all are."""
        passes = None
        if self._confirmed and rows:
            left, right = ([columns.column(c) for c in side] for side in zip(*self._confirmed, strict=True))
            passes = equal_rows(left, right, rows)
        if self.node.residual is None or not rows:
            return passes
        true = is_true(columns, rows, self.node.residual)
        return true if passes is None else true & passes


def joined_columns(node: Join) -> set[int]:
    """Returns the columns of a pair that the join itself reads: those of its residual and of its comparisons."""
    width = len(node.left.schema)
    compared = {c.left for c in node.comparisons} | {width + c.right for c in node.comparisons}
    return compared | (columns_of(node.residual.sql) if node.residual else set())

"""Builds ASOF joins: each row of the left side with the nearest row of the right side.

Of the rows of the right side that satisfy the condition, the one whose compared value is nearest to that of the left
row is its partner; ties are broken by all columns of the right side, ascending, NULLs last. Equal left rows have equal
partners, so the nearest one is found once per different left row, and the left rows are joined with it. Invariant: at
every instant the nearest partner among the rows alive then. Cost: all pairs that satisfy the condition are formed and
kept in order, so windows of the right side should be short, or have few rows per key.
"""

from __future__ import annotations

from kigen.language.app_text import Source, Span
from kigen.plan.binder.from_clause.conjuncts import Base
from kigen.plan.binder.from_clause.partners import Partners, chosen, null
from kigen.plan.expressions.columns import bare
from kigen.plan.expressions.conditions import comparisons_of
from kigen.plan.join_building import Sides, join_of, sides_of, with_columns
from kigen.plan.logical import Distinct, Expr, OuterJoin, PlanNode, Project, SortKey, TopN
from kigen.plan.types import Column, Type

_DEFAULTS = {
    "BOOLEAN": "FALSE",
    "STRING": "''",
    "TIMESTAMP": "TIMESTAMP '1970-01-01'",
    "DATE": "DATE '1970-01-01'",
    "TIME": "TIME '00:00:00'",
    "UUID": "''",
    "BLOB": "''::BLOB",
    "LIST": "[]",
}


def asof_join(kind: str, partners: Partners, left: Base, right: Base, source: Source, place: Span) -> Base:
    """Returns the ASOF join, or the ASOF LEFT join, of two parts of FROM."""
    compared = comparisons_of(partners.conditions[0].sql) if len(partners.conditions) == 1 else []
    sides = sides_of(compared[0], left.node, right.node) if len(compared) == 1 and compared[0].op != "=" else None
    if sides is None:
        raise source.error(
            place,
            "ASOF JOIN needs one inequality between both sides, beside equalities",
            "write ASOF JOIN ... ON a.k = b.k AND a.ts >= b.ts",
        )
    joined: PlanNode = _with_nearest(partners, _nearest(partners, sides))
    width = len(partners.left.schema)
    if kind == "ASOF LEFT":
        alone = [_padded(partners, node) for node in partners.anti()]
        joined = OuterJoin((joined, *alone), f"asof left join by {sides.left.text} {sides.op} {sides.right.text}")
    return Base(joined, left.places | {p: width + c for p, c in right.places.items()})


def _nearest(partners: Partners, sides: Sides) -> PlanNode:
    """Returns the different left rows, each with its nearest partner: columns of left, then right."""
    left, right = partners.left, partners.right
    given, (at,) = with_columns(right.matchable, [sides.right])
    keys = list(zip(left.keys, right.keys, strict=True))
    pairs = join_of(Distinct(left.matchable), given, keys, partners.conditions)
    width, shift = len(left.schema), len(pairs.left.schema)
    columns = [*range(width), *(shift + c for c in range(len(right.schema))), shift + at]
    names = (*(c.name for c in left.schema + right.schema), sides.right.text)
    node = Project(pairs, tuple(bare(pairs.schema, c) for c in columns), names)
    last = len(columns) - 1
    order = [SortKey(last, descending=sides.op in (">", ">="))]
    order += [SortKey(c) for c in (*range(width, last), *range(width))]
    return TopN(node, tuple(order), 1, 0, tuple(range(width)))


def _with_nearest(partners: Partners, nearest: PlanNode) -> PlanNode:
    """Joins all left rows with the partner of the row that equals them, in NULLs too."""
    schema, width = partners.left.schema, len(partners.left.schema)
    keys = [pair for i in range(width) for pair in _equal(bare(schema, i), bare(nearest.schema, i))]
    joined = join_of(partners.left.with_keys(), nearest, keys, ())
    shift = len(joined.left.schema) + width
    columns = [*range(width), *(shift + c for c in range(len(partners.right.schema)))]
    return chosen(joined, columns, partners.schema)


def _default(kind: Type) -> str:
    """Returns some value of a type."""
    if kind.kind == "STRUCT":
        names = ("'" + name.replace("'", "''") + "'" for name, _ in kind.fields)
        return "{" + ", ".join(f"{name}: NULL" for name in names) + "}"
    return _DEFAULTS.get(kind.kind, f"CAST(0 AS {kind.duckdb})")


def _equal(one: Expr, other: Expr) -> list[tuple[Expr, Expr]]:
    """Returns keys that are equal if the columns are equal or both NULL."""
    default = _default(one.type)
    return [
        (
            Expr(f"COALESCE({one.sql}, {default})", one.type, one.text),
            Expr(f"COALESCE({other.sql}, {default})", other.type, other.text),
        ),
        (
            Expr(f"{one.sql} IS NULL", Type.BOOLEAN, f"{one.text} IS NULL"),
            Expr(f"{other.sql} IS NULL", Type.BOOLEAN, f"{other.text} IS NULL"),
        ),
    ]


def _padded(partners: Partners, node: PlanNode) -> PlanNode:
    schema: tuple[Column, ...] = partners.schema
    width = len(partners.left.schema)
    exprs = [bare(node.schema, i) if i < width else null(c) for i, c in enumerate(schema)]
    return Project(node, tuple(exprs), tuple(c.name for c in schema))

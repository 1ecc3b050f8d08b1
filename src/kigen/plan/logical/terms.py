"""What plan nodes are made of: expressions, aggregate functions and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kigen.plan.types import Type

# Position in the text of the app file, for warnings. It is never compared, so equal plans written twice are one plan.
Place = tuple[int, int]


@dataclass(frozen=True)
class Expr:
    """A scalar expression. `sql` is over c0, c1, ... of the child and already cast to `type`. `text` is what the user
    wrote, for explain; it does not count when nodes are compared, so sub-plans that differ only in aliases are
    shared."""

    sql: str
    type: Type
    text: str = field(compare=False)
    column: int | None = None  # set when the expression is just that child column: no evaluation needed


class AggFunc(Enum):
    COUNT_STAR = "COUNT(*)"
    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True)
class Agg:
    """An aggregate function over a column of the child."""

    func: AggFunc
    arg: int | None  # child column; None only for COUNT_STAR
    # of the result: COUNT BIGINT; SUM BIGINT or DOUBLE like its argument; AVG DOUBLE; MIN, MAX like the argument
    type: Type


@dataclass(frozen=True)
class Comparison:
    """`left op right` of a join: a column of the left child, `<`, `<=`, `>` or `>=`, and a column of the right child.
    Both columns have one type: BIGINT, DOUBLE or TIMESTAMP. The order is DuckDB's: NaN is the greatest DOUBLE. A
    comparison with NULL is never true."""

    left: int
    op: str
    right: int

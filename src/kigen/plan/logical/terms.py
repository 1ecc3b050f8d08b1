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
    STDDEV_SAMP = "STDDEV"
    STDDEV_POP = "STDDEV_POP"
    VAR_SAMP = "VARIANCE"
    VAR_POP = "VAR_POP"
    BOOL_AND = "BOOL_AND"
    BOOL_OR = "BOOL_OR"
    QUANTILE = "QUANTILE_CONT"
    ARG_MIN = "ARG_MIN"
    ARG_MAX = "ARG_MAX"
    FIRST = "FIRST"
    LAST = "LAST"
    STRING_AGG = "STRING_AGG"
    LIST = "LIST"


NULL_ON_OVERFLOW = "NULL on overflow"  # parameter of a SUM that does not fail
BIRTH = -1  # in place of a column: the instant at which a row was born


@dataclass(frozen=True)
class SortKey:
    """A column of an order: which, in which direction, and where NULLs are."""

    column: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Agg:
    """An aggregate function over a column of the child."""

    func: AggFunc
    arg: int | None  # child column; None only for COUNT_STAR. BOOL_AND and BOOL_OR: BIGINT 0 or 1
    # of the result: COUNT BIGINT; SUM BIGINT or DOUBLE like its argument; AVG DOUBLE; MIN, MAX like the argument
    type: Type
    distinct: bool = False  # each different value counts once: COUNT, SUM, AVG, STDDEV, VARIANCE
    # Complete order of the tuples, for FIRST, LAST, STRING_AGG, LIST, ARG_MIN and ARG_MAX (whose first key is their
    # second argument).
    order: tuple[SortKey, ...] = ()
    parameter: float | str | None = None  # fraction of QUANTILE, separator of STRING_AGG, NULL_ON_OVERFLOW
    condition: int | None = None  # BOOLEAN child column that a tuple of FIRST, LAST or LIST must satisfy

    @property
    def columns(self) -> frozenset[int]:
        """Returns the child columns that the aggregate reads."""
        found = {self.arg, self.condition, *(key.column for key in self.order)}
        return frozenset(column for column in found if column is not None and column != BIRTH)


@dataclass(frozen=True)
class Comparison:
    """`left op right` of a join: a column of the left child, `<`, `<=`, `>` or `>=`, and a column of the right child.
    Both columns have one type: BIGINT, DOUBLE or TIMESTAMP. The order is DuckDB's: NaN is the greatest DOUBLE. A
    comparison with NULL is never true."""

    left: int
    op: str
    right: int

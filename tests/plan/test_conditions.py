"""Tests how conditions are cut from their text, and which expressions might raise."""

from __future__ import annotations

import pytest

from kigen.plan.expressions.columns import columns_of, movable, moved, substituted
from kigen.plan.expressions.conditions import Compared, comparisons_of, parts_of
from kigen.plan.expressions.raising import may_raise
from kigen.plan.logical import Expr
from kigen.plan.types import Column, Type

PARTS = {
    "a and b": ["a", "b"],
    "(a) AND ((b) and c)": ["a", "b", "c"],
    "a between 1 and 2 and b": ["a between 1 and 2", "b"],
    "a between 1 and 2": ["a between 1 and 2"],
    "a or b and c": ["a or b and c"],
    "(a or b) and c": ["a or b", "c"],
    "not a and b": ["not a", "b"],
    "case when a and b then c end and d": ["case when a and b then c end", "d"],
    "a = ' and ' and \"x and y\" = 1": ["a = ' and '", '"x and y" = 1'],
    "f(a and b)": ["f(a and b)"],
    "(a) = (b)": ["(a) = (b)"],
    "a = $$ and $$ and b": ["a = $$ and $$ and b"],  # odd quotes: not cut
}


@pytest.mark.parametrize("sql", PARTS)
def test_parts(sql: str) -> None:
    assert parts_of(sql) == PARTS[sql]


COMPARED = {
    "c0 < c1 + 1": [Compared("c0", "<", "c1 + 1")],
    "( c0 >= c1 )": [Compared("c0", ">=", "c1")],
    "c0 % 7 = c1": [Compared("c0 % 7", "=", "c1")],
    "c0 between c1 and c2 + 1": [Compared("c0", ">=", "c1"), Compared("c0", "<=", "c2 + 1")],
    "c0 not between c1 and c2": [],
    "c0 between symmetric c1 and c2": [],
    "not c0 < c1": [],
    "c0 < c1 < c2": [],
    "c0 <> c1": [],
    "c0 = c1 is null": [],
    "c0 << 2 > c1": [],
    "case when c0 < c1 then c2 end > c3": [Compared("case when c0 < c1 then c2 end", ">", "c3")],
    "c0 is not distinct from c1": [],
    "c0 in (1, 2)": [],
    "c0 < any (c1)": [],
}


@pytest.mark.parametrize("sql", COMPARED)
def test_comparisons(sql: str) -> None:
    assert comparisons_of(sql) == COMPARED[sql]


TYPES = (Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP, Type.BOOLEAN)
SAFE = [
    "c0 + 1 > 2",
    "c0 % 10000 = 3",
    "c0 // 2 = 1",
    "c1 / 2.5 > 1",
    "cast ( c0 as double ) > 1",
    "cast ( c1 as varchar ) = '1'",
    "cast ( c4 as bigint ) = 1",
    "CAST(c0 * 1.5 AS DOUBLE) > 1",
    "try_cast ( c2 as bigint ) = 1",
    "upper ( c2 ) = 'A'",
    "c2 like '%/%'",
    "hour ( c3 ) > 8",
    "c3 + interval 1 second > c3",
    "coalesce ( c0 , 1 ) between 1 and 2",
]
RISKY = [
    "c0 % 0 = 1",
    "c0 // c0 = 1",
    "c1 / 0.0 > 1",
    "c0 % -1 = 0",
    "c0 % 2 ** c0 = 0",
    "c0 / 7::bigint = 1",
    "cast ( c2 as bigint ) = 1",
    "cast ( c1 as bigint ) = 1",
    "cast ( c2 as timestamp ) = c3",
    "c2::double > 1",
    "sqrt ( c1 ) > 1",
    "strptime ( c2 , '%Y' ) > c3",
    "c0 << 2 > 1",
    "c2 = e'\\n'",
]


@pytest.mark.parametrize("sql", SAFE)
def test_cannot_raise(sql: str) -> None:
    assert not may_raise(sql, TYPES)


@pytest.mark.parametrize("sql", RISKY)
def test_might_raise(sql: str) -> None:
    assert may_raise(sql, TYPES)


def test_columns_are_found_outside_quotes_only() -> None:
    expr = Expr("c0 || 'c1' || \"c2\" = c3", Type.BOOLEAN, "")
    assert columns_of(expr.sql) == {0, 3}
    assert moved(expr, lambda c: c + 10).sql == "c10 || 'c1' || \"c2\" = c13"
    assert not movable("c0 = $$c1$$")


def test_substitution_keeps_precedence_and_names_the_columns() -> None:
    schema = (Column("x", Type.BIGINT), Column("y", Type.BIGINT))
    exprs = [Expr("c0 + c1", Type.BIGINT, "x + y"), Expr("c1", Type.BIGINT, "z", 1)]
    new = substituted(Expr("c0 * 2 > c1", Type.BOOLEAN, "n * 2 > m"), exprs, schema)
    assert (new.sql, new.text) == ("(c0 + c1) * 2 > c1", "(x + y) * 2 > y")
    assert substituted(Expr("c1", Type.BIGINT, "m", 1), exprs, schema).column == 1

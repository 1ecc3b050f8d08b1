"""Expressions over small blocks give DuckDB's answer, or DuckDB's error, whoever evaluates them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kigen.lifetimes.expressions import evaluation as expressions
from kigen.lifetimes.expressions.closure_check import agrees, awkward_rows, same_value
from kigen.lifetimes.expressions.closures import MOST_ROWS, SmallExpression, columns_read, compiled
from kigen.lifetimes.expressions.evaluation import EvaluationError, evaluate
from kigen.lifetimes.expressions.values import Values
from kigen.plan.logical import Expr
from kigen.plan.types import Type

SCHEMA = pa.schema(
    [
        ("c0", pa.string()),
        ("c1", pa.float64()),
        ("c2", pa.int64()),
        ("c3", pa.bool_()),
        ("c4", pa.timestamp("us")),
        ("c5", pa.int64()),
        ("c6", pa.float64()),
    ]
)
NAMES = {"BOOLEAN": Type.BOOLEAN, "BIGINT": Type.BIGINT, "DOUBLE": Type.DOUBLE, "VARCHAR": Type.STRING}
SEEDS = 300


def number(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(["c1", "c2", "c5", "c6", "0", "1", "7", "20.5", "1e3", "2", "c2", "c1"])
    inner = [number(draw, depth - 1) for _ in range(2)]
    form = draw.choice(
        [
            "{} + {}",
            "{} - {}",
            "{} * {}",
            "({} / {})",
            "({} + {})",
            "- {}",
            "coalesce({}, {})",
            "cast({} as double)",
            "case when " + truth(draw, depth - 1).replace("{", "{{").replace("}", "}}") + " then {} else {} end",
        ]
    )
    if draw.random() < 0.15:
        form = draw.choice(["(c2 % {})", "(c5 // {})"])
        inner = [draw.choice(["3", "c5", "c2", "10"])]
    return form.format(*inner)


def truth(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(["c3", "c2 > 3", "c1 < c6", "c0 = 'a'", "c4 > timestamp '2001-01-01'", "true", "c0 is null"])
    form = draw.choice(["{} and {}", "{} or {}", "not {}", "({} or {})", "number", "number", "number", "text", "in"])
    if form == "number":
        a, b, c = (number(draw, depth - 1) for _ in range(3))
        operator = draw.choice(["=", "<>", "<", "<=", ">", ">="])
        return draw.choice([f"{a} {operator} {b}", f"{a} between {b} and {c}", f"{a} is null", f"{a} is not null"])
    if form == "text":
        operator = draw.choice(["=", "<>", "<", "<=", ">", ">="])
        other = draw.choice(["'a'", "'ä'", "c0", "''"])
        return f"c0 {operator} {other}"
    if form == "in":
        return draw.choice(["c0 in ('a', 'b')", "c2 in (1, 2, 7)", "c2 not in (1, 2)", "c1 in (1, 0.5)", "c0 in ('')"])
    return form.format(*(truth(draw, depth - 1) for _ in range(2)))


def by_duckdb(rows: pa.RecordBatch, sql: str, kind: Type) -> list[Any] | str:
    try:
        return expressions.run(rows, [sql]).column(0).cast(kind.arrow).to_pylist()
    except EvaluationError as error:
        return str(error)


def by_kigen(rows: pa.RecordBatch, sql: str, kind: Type) -> list[Any] | str:
    try:
        return evaluate(rows, rows.num_rows, [Expr(sql, kind, sql)])[0].to_pylist()
    except EvaluationError as error:
        return str(error)


def same(mine: list[Any] | str, theirs: list[Any] | str) -> bool:
    if isinstance(mine, str) or isinstance(theirs, str):
        return mine == theirs
    return all(same_value(a, b) for a, b in zip(mine, theirs, strict=True))


def type_of(sql: str) -> Type | None:
    empty = awkward_rows(SCHEMA, sql).slice(0, 0)
    try:
        relation = expressions.connection().from_arrow(pa.Table.from_batches([empty])).project(sql)
    except Exception:  # not every random text is SQL that DuckDB takes
        return None
    return NAMES.get(str(relation.types[0]))


@pytest.mark.parametrize("part", range(6))
def test_random_expressions_are_duckdbs(part: int) -> None:
    taken = tried = 0
    for seed in range(part * SEEDS // 6, (part + 1) * SEEDS // 6):
        draw = random.Random(seed)
        sql = truth(draw, 3) if seed % 2 else number(draw, 3)
        kind = type_of(sql)
        if kind is None:
            continue
        tried += 1
        rows = awkward_rows(SCHEMA, sql, seed + 1)
        tame = [i for i in range(rows.num_rows) if seed % 3 or rows.column(1)[i].as_py() == rows.column(1)[i].as_py()]
        for first, count in ((0, 1), (1, 2), (3, 7), (10, 1), (11, 20)):
            block = rows.take(tame).slice(first, count)
            mine, theirs = by_kigen(block, sql, kind), by_duckdb(block, sql, kind)
            assert same(mine, theirs), f"seed {seed}: {sql}\n{block.to_pylist()}\nhere {mine}\nDuckDB {theirs}"
        taken += any(small is not None for (text, _), small in expressions._small.items() if text == sql)
    assert tried > 20
    assert taken > tried // 2, f"closures were made for {taken} of {tried} expressions only"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("upper(c0)", Type.STRING),
        ("c2 = 1.5", Type.BOOLEAN),  # a DECIMAL in DuckDB
        ("cast(c1 as bigint)", Type.BIGINT),
        ("c0 like 'a%'", Type.BOOLEAN),
        ("c4 + interval 1 hour", Type.TIMESTAMP),
    ],
)
def test_what_is_not_simple_is_left_to_duckdb(sql: str, kind: Type) -> None:
    rows = awkward_rows(SCHEMA, sql)
    assert compiled(sql, kind, rows, expressions._constant) is None


def test_a_closure_that_differs_is_refused() -> None:
    def wrong(columns: pa.RecordBatch) -> Values:
        return Values(columns.column(2).fill_null(0).to_numpy(zero_copy_only=False))

    rows = awkward_rows(SCHEMA, "c2 + 1")
    assert not agrees(SmallExpression(wrong, Type.BIGINT), "c2 + 1", rows, expressions.run)


def test_large_blocks_go_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    real = expressions.run

    def counted(columns: pa.RecordBatch, sqls: list[str]) -> pa.RecordBatch:
        called.append(columns.num_rows)
        return real(columns, sqls)

    expr = Expr("c2 * 5 > 40", Type.BOOLEAN, "c2 * 5 > 40")
    few, many = (pa.RecordBatch.from_pydict({"c0": [0], "c1": [0], "c2": [n]}) for n in (1, 9))
    assert evaluate(few, 1, [expr])[0].to_pylist() == [False]
    monkeypatch.setattr(expressions, "run", counted)
    assert evaluate(many, 1, [expr])[0].to_pylist() == [True]
    assert called == []
    rows = pa.RecordBatch.from_pydict({name: [9] * (MOST_ROWS + 1) for name in ("c0", "c1", "c2")})
    assert evaluate(rows, rows.num_rows, [expr])[0].to_pylist() == [True] * (MOST_ROWS + 1)
    assert called == [MOST_ROWS + 1]


def test_columns_read() -> None:
    assert columns_read("c3 + c1 > c3") == (1, 3)
    assert columns_read("1 + 2") == ()
    assert columns_read("x > 1") is None

"""Evaluates scalar expressions over one batch: by DuckDB (docs/decisions/001), or over few rows by closures.

Cost: about 1 ms per call of DuckDB plus some 30 ns per row and expression; over at most 512 rows, microseconds for the
expressions that `closures` takes (docs/decisions/024); bare columns cost nothing. Each process has one
connection, made on first use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Mask, absent
from kigen.lifetimes.expressions.bounded import TooLarge, check_times, table_of
from kigen.lifetimes.expressions.closure_check import agrees
from kigen.lifetimes.expressions.closures import MOST_ROWS, SmallExpression, columns_read, compiled
from kigen.lifetimes.expressions.python_functions import MADE_BY, FunctionError, add_known
from kigen.lifetimes.expressions.python_functions import install as install_code
from kigen.lifetimes.expressions.values import Unsure
from kigen.plan.expressions.columns import columns_of
from kigen.plan.expressions.locked_duckdb import connect
from kigen.plan.logical import Expr, Function, own_calls, with_own_names

_NULL_TEST = re.compile(r"\(?c(\d+)\)? IS (NOT )?NULL")
_small: dict[tuple[str, tuple[pa.DataType, ...]], SmallExpression | None] = {}
_connections: dict[bool, duckdb.DuckDBPyConnection] = {}  # by whether they are for TRY
_owner: int | None = None


class EvaluationError(ValueError):
    """An expression failed on real data (an overflow, a cast that is not possible ...)."""


def connection(tries: bool = False) -> duckdb.DuckDBPyConnection:
    """Returns this process's connection, or the one for expressions with TRY: there DuckDB must not move what two of
    them have in common out of TRY. A forked child makes its own."""
    global _owner
    if _owner != os.getpid():
        _connections.clear()
        _owner = os.getpid()
    if tries not in _connections:
        _connections[tries] = connect(**({"disabled_optimizers": "common_subexpressions"} if tries else {}))
        add_known(_connections[tries])
    return _connections[tries]


def install(functions: Sequence[Function]) -> None:
    """Makes the functions of an app known to this process; raises EvaluationError if their code cannot be loaded."""
    try:
        install_code(functions, list(_connections.values()) if _owner == os.getpid() else [])
    except FunctionError as error:
        raise EvaluationError(str(error)) from error


def run(columns: pa.RecordBatch, sqls: Sequence[str]) -> pa.RecordBatch:
    select = ", ".join(f"({sql}) AS e{i}" for i, sql in enumerate(sqls))
    try:
        source = connection(any("TRY(" in sql for sql in sqls)).from_arrow(pa.Table.from_batches([columns]))
        table = table_of(source.project(select), sqls)
    except (duckdb.Error, TooLarge) as error:
        raise EvaluationError(_message(str(error).strip(), columns, sqls)) from error
    return table.combine_chunks().to_batches()[0]


def _message(message: str, columns: pa.RecordBatch, sqls: Sequence[str]) -> str:
    """Returns an error of DuckDB for users, with the first row on which an expression fails."""
    names = ", ".join(sorted({found for sql in sqls for found in own_calls(sql)}))
    if names:
        message = with_own_names(message).partition(MADE_BY)[2] or with_own_names(message)
        message = f"function {names} failed: {message}"
    else:  # without the text that DuckDB read, and without settings that cannot be changed here
        message = message.partition("\n\nLINE")[0].partition(", or SET ")[0].rstrip(".")
    for sql in sqls:
        row = _first_failed(columns, sql)
        read = {name: row[name] for name in (f"c{i}" for i in sorted(columns_of(sql))) if name in row}
        if names and row:
            return f"{message}; on the row with the values {', '.join(f'{value!r}' for value in read.values())}"
        if read:
            return f"{message}; on the row with {', '.join(f'{name} = {value}' for name, value in read.items())}"
    return message


def _first_failed(columns: pa.RecordBatch, sql: str) -> dict[str, Any]:
    """Returns the first row on which an expression fails; empty if there is none, or if TRY does not tell."""
    try:
        failed = np.flatnonzero(fails(columns, sql))
    except duckdb.Error:
        return {}
    return dict(columns.slice(int(failed[0]), 1).to_pylist()[0]) if len(failed) else {}


def fails(columns: pa.RecordBatch, sql: str) -> Mask:
    """Returns the rows on which an expression fails, by DuckDB's TRY, which gives NULL there."""
    source = connection(tries=True).from_arrow(pa.Table.from_batches([columns]))
    found = source.project(f"TRY(({sql}) IS NULL) IS NULL AS failed").to_arrow_table()
    return as_mask(found.column(0).combine_chunks())


def evaluate(columns: pa.RecordBatch, rows: int, exprs: Sequence[Expr]) -> list[pa.Array]:
    """Returns one array per expression, of the expression's type, in the order of the rows."""
    out: list[pa.Array | None] = [columns.column(e.column) if e.column is not None else None for e in exprs]
    for i, array in enumerate(out):
        if array is None:
            out[i] = _plainly(columns, rows, exprs[i])
    if 0 < rows <= MOST_ROWS:
        for i, array in enumerate(out):
            if array is None:
                out[i] = _evaluate_small(columns, exprs[i])
    todo = [i for i, array in enumerate(out) if array is None]
    if todo and rows:
        if columns.num_columns == 0:  # constants over rows without columns
            columns = pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"])
        result = run(columns, [exprs[i].sql for i in todo])
        for k, i in enumerate(todo):
            array = result.column(k)
            wanted = exprs[i].type.arrow
            out[i] = array if array.type == wanted else array.cast(wanted)
            _require_times(out[i])
    return [pa.array([], type=e.type.arrow) if a is None else a for a, e in zip(out, exprs, strict=True)]


def _plainly(columns: pa.RecordBatch, rows: int, expr: Expr) -> pa.Array | None:
    """Returns NULLs, or which values of a column are NULL; None for every other expression. Outer joins ask for both
    with every block."""
    if expr.sql == f"CAST(NULL AS {expr.type.duckdb})":
        return absent(expr.type.arrow, rows)
    test = _NULL_TEST.fullmatch(expr.sql)
    if test is None or int(test[1]) >= columns.num_columns:
        return None
    column = columns.column(int(test[1]))
    return column.is_valid() if test[2] else column.is_null()


def _evaluate_small(columns: pa.RecordBatch, expr: Expr) -> pa.Array | None:
    """Returns the values, if a closure gives them; None if DuckDB has to."""
    read = columns_read(expr.sql)
    if not read or read[-1] >= columns.num_columns:
        return None
    key = expr.sql, tuple(columns.column(i).type for i in read)
    if key not in _small:
        _small[key] = _verified(columns, expr)
    small = _small[key]
    if small is None:
        return None
    try:
        return small(columns)
    except Unsure:
        return None


def _verified(columns: pa.RecordBatch, expr: Expr) -> SmallExpression | None:
    try:
        small = compiled(expr.sql, expr.type, columns, _constant)
        return small if small is not None and agrees(small, expr.sql, columns, run) else None
    except (EvaluationError, pa.ArrowException):
        return None


def _constant(sql: str) -> tuple[Any, str]:
    relation = connection().sql(f"SELECT ({sql}) AS value")
    ((value,),) = relation.fetchall()
    return value, str(relation.types[0])


def _require_times(times: pa.Array) -> None:
    try:
        check_times(times)
    except TooLarge as error:
        raise EvaluationError(str(error)) from error


def is_true(columns: pa.RecordBatch, rows: int, predicate: Expr) -> Mask:
    """Returns where the predicate is true (not false, not NULL)."""
    return as_mask(evaluate(columns, rows, [predicate])[0])


def as_mask(array: pa.Array) -> Mask:
    filled = pc.fill_null(array, False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def has_null(columns: pa.RecordBatch, keys: Sequence[int]) -> Mask:
    """Returns the rows in which any of the key columns is NULL. They join with nothing."""
    mask = np.zeros(columns.num_rows, dtype=np.bool_)
    for k in keys:
        column = columns.column(k)
        if column.null_count:
            mask |= np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return mask

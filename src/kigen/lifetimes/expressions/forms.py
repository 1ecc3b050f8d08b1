"""The forms of expressions that are compiled for small blocks: one builder per form, and the table of them.

A builder takes a parsed expression and returns a closure with its type, or raises NotTaken. A closure raises Unsure
wherever its answer might not be DuckDB's: overflow, division by zero, NaN, infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from kigen.lifetimes.expressions.arithmetic import ARITHMETIC, Compiler
from kigen.lifetimes.expressions.values import (
    BOOL,
    DOUBLE,
    INT,
    TEXT,
    TIME,
    Array,
    Decimal,
    NotTaken,
    Typed,
    Unsure,
    Values,
    both,
    numbers,
    widened,
)
from kigen.plan.types import Type

_Comparing = Callable[[Array, Array], Array]
_TEXT_COMPARISONS: dict[Any, Callable[[Any, Any], Any]] = {
    np.equal: pc.equal,
    np.not_equal: pc.not_equal,
    np.less: pc.less,
    np.less_equal: pc.less_equal,
    np.greater: pc.greater,
    np.greater_equal: pc.greater_equal,
}


def _compare(a: Typed, b: Typed, operate: _Comparing) -> Typed:
    if a.type is TEXT and b.type is TEXT:
        return _compare_texts(a, b, _TEXT_COMPARISONS[operate])
    if a.type is TIME and b.type is TIME:
        kind = TIME
    else:
        a, b, kind = numbers(a, b)
    left, right = a.run, b.run

    def run(columns: pa.RecordBatch) -> Values:
        x, y = left(columns), right(columns)
        if kind is DOUBLE and (np.isnan(x.data).any() or np.isnan(y.data).any()):
            raise Unsure
        return Values(operate(x.data, y.data), both(x, y))

    return Typed(run, BOOL)


def _compare_texts(a: Typed, b: Typed, operate: Callable[[Any, Any], Any]) -> Typed:
    left, right = a.run, b.run
    fixed = pa.scalar(b.constant, pa.string()) if isinstance(b.constant, str) else None

    def run(columns: pa.RecordBatch) -> Values:
        x = left(columns)
        y = None if fixed is not None else right(columns)
        found = operate(x.data, fixed if y is None else y.data)
        return Values(np.asarray(found.to_numpy(zero_copy_only=False)), x.valid if y is None else both(x, y))

    return Typed(run, BOOL)


def _comparison(operate: _Comparing) -> Callable[..., Typed]:
    def build(compiler: Compiler, tree: exp.Expression) -> Typed:
        left, right = compiler.two(tree)
        return _compare(left, right, operate)

    return build


def _and(a: Values, b: Values) -> Values:
    """SQL's: false wins over NULL."""
    data = a.data & b.data
    if a.valid is None and b.valid is None:
        return Values(data)
    known_a, known_b = _known(a), _known(b)
    return Values(data & known_a & known_b, (known_a & known_b) | (known_a & ~a.data) | (known_b & ~b.data))


def _or(a: Values, b: Values) -> Values:
    return _not(_and(_not(a), _not(b)))


def _not(a: Values) -> Values:
    return Values(~a.data, a.valid)


def _known(a: Values) -> Array:
    return np.ones(len(a.data), dtype=np.bool_) if a.valid is None else a.valid


def _logic(operate: Callable[[Values, Values], Values]) -> Callable[..., Typed]:
    def build(compiler: Compiler, tree: exp.Expression) -> Typed:
        left, right = compiler.truth(tree.this).run, compiler.truth(tree.expression).run
        return Typed(lambda columns: operate(left(columns), right(columns)), BOOL)

    return build


def _negation(compiler: Compiler, tree: exp.Expression) -> Typed:
    inner = compiler.truth(tree.this).run
    return Typed(lambda columns: _not(inner(columns)), BOOL)


def _between(compiler: Compiler, tree: exp.Expression) -> Typed:
    if {k for k, v in tree.args.items() if v} - {"this", "low", "high"}:
        raise NotTaken(tree.sql())
    value = compiler.compile(tree.this)
    low = _compare(value, compiler.compile(tree.args["low"]), np.greater_equal).run
    high = _compare(value, compiler.compile(tree.args["high"]), np.less_equal).run
    return Typed(lambda columns: _and(low(columns), high(columns)), BOOL)


def _in(compiler: Compiler, tree: exp.Expression) -> Typed:
    if {k for k, v in tree.args.items() if v} != {"this", "expressions"}:
        raise NotTaken(tree.sql())
    value = compiler.compile(tree.this)
    tests = [_compare(value, compiler.compile(item), np.equal).run for item in tree.expressions]

    def run(columns: pa.RecordBatch) -> Values:
        found = tests[0](columns)
        for test in tests[1:]:
            found = _or(found, test(columns))
        return found

    return Typed(run, BOOL)


def _is(compiler: Compiler, tree: exp.Expression) -> Typed:
    if not isinstance(tree.expression, exp.Null):
        raise NotTaken(tree.sql())
    inner = compiler.compile(tree.this).run
    return Typed(lambda columns: Values(~_present(inner(columns), columns.num_rows)), BOOL)


def _present(values: Values, rows: int) -> Array:
    return np.ones(rows, dtype=np.bool_) if values.valid is None else values.valid


def _choose(first: Values, where: Array, second: Values, kind: Type) -> Values:
    """`first` where it says so, else `second`."""
    rows = len(where)
    valid = np.where(where, _present(first, rows), _present(second, rows))
    if kind is TEXT:
        return Values(pc.if_else(pa.array(where), first.data, second.data), valid)
    return Values(np.where(where, first.data, second.data), valid)


def _one_type(parts: list[Typed]) -> tuple[list[Typed], Type]:
    types = {part.type for part in parts}
    if len(types) == 1 and not any(isinstance(part.constant, Decimal) for part in parts):
        return parts, parts[0].type
    if types == {INT, DOUBLE} and not any(isinstance(part.constant, Decimal) for part in parts):
        return [widened(part, DOUBLE) for part in parts], DOUBLE
    raise NotTaken("types")


def _coalesce(compiler: Compiler, tree: exp.Expression) -> Typed:
    parts, kind = _one_type([compiler.compile(part) for part in (tree.this, *tree.expressions)])
    runs = [part.run for part in parts]

    def run(columns: pa.RecordBatch) -> Values:
        found = runs[0](columns)
        for other in runs[1:]:
            if found.valid is None:
                return found
            found = _choose(found, found.valid, other(columns), kind)
        return found

    return Typed(run, kind)


def _case(compiler: Compiler, tree: exp.Expression) -> Typed:
    if tree.args.get("this") is not None or tree.args.get("default") is None:
        raise NotTaken(tree.sql())
    conditions = [compiler.truth(branch.this).run for branch in tree.args["ifs"]]
    results = [compiler.compile(branch.args["true"]) for branch in tree.args["ifs"]]
    parts, kind = _one_type([*results, compiler.compile(tree.args["default"])])
    runs = [part.run for part in parts]

    def run(columns: pa.RecordBatch) -> Values:
        found = runs[-1](columns)
        for condition, result in zip(reversed(conditions), reversed(runs[:-1]), strict=True):
            test = condition(columns)
            where = test.data if test.valid is None else test.data & test.valid
            found = _choose(result(columns), where, found, kind)
        return found

    return Typed(run, kind)


_CASTS = {exp.DataType.Type.BIGINT: INT, exp.DataType.Type.DOUBLE: DOUBLE, exp.DataType.Type.BOOLEAN: BOOL}


def _cast(compiler: Compiler, tree: exp.Expression) -> Typed:
    kind = _CASTS.get(tree.args["to"].this)
    if kind is None or any(v for k, v in tree.args.items() if k not in ("this", "to", "_type")):
        raise NotTaken(tree.sql())
    inner = compiler.compile(tree.this)
    if isinstance(inner.constant, Decimal):
        raise NotTaken(tree.sql())
    return widened(inner, kind)


FORMS: dict[type[exp.Expression], Callable[[Compiler, Any], Typed]] = {
    **ARITHMETIC,
    exp.EQ: _comparison(np.equal),
    exp.NEQ: _comparison(np.not_equal),
    exp.LT: _comparison(np.less),
    exp.LTE: _comparison(np.less_equal),
    exp.GT: _comparison(np.greater),
    exp.GTE: _comparison(np.greater_equal),
    exp.And: _logic(_and),
    exp.Or: _logic(_or),
    exp.Not: _negation,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Coalesce: _coalesce,
    exp.Case: _case,
    exp.Cast: _cast,
}

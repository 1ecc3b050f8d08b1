"""Arithmetic over small blocks: one closure per operator, unsure where DuckDB would raise or give NULL.

Sums and products of integers stay below 2**62, results of doubles are finite, divisors are not 0: all else is DuckDB's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from sqlglot import exp

from kigen.lifetimes.expressions.values import (
    DOUBLE,
    INT,
    Array,
    NotTaken,
    Typed,
    Unsure,
    Values,
    both,
    numbers,
    widened,
)

_LARGEST_INT = 1 << 62


class Compiler(Protocol):
    """What a builder asks for its parts."""

    def compile(self, tree: exp.Expression) -> Typed: ...

    def two(self, tree: exp.Expression) -> tuple[Typed, Typed]: ...

    def truth(self, tree: exp.Expression) -> Typed: ...


def _finite(data: Array) -> Array:
    if not np.isfinite(data).all():
        raise Unsure
    return data


def _span(data: Array) -> int:
    return max(abs(int(data.min())), abs(int(data.max()))) if len(data) else 0


def _add(a: Array, b: Array) -> Array:
    if a.dtype == np.int64 and _span(a) + _span(b) >= _LARGEST_INT:
        raise Unsure
    return a + b


def _subtract(a: Array, b: Array) -> Array:
    if a.dtype == np.int64 and _span(a) + _span(b) >= _LARGEST_INT:
        raise Unsure
    return a - b


def _multiply(a: Array, b: Array) -> Array:
    if a.dtype == np.int64 and _span(a) * _span(b) >= _LARGEST_INT:
        raise Unsure
    return a * b


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype != np.int64 or not b.all() or _span(a) >= _LARGEST_INT:
        raise Unsure
    return np.fmod(a, b)


def _whole(a: Array, b: Array) -> Array:
    rest = _remainder(a, b)
    return (a - rest) // b


def _divide(a: Array, b: Array) -> Array:
    if not b.all():
        raise Unsure
    return a / b


def _arithmetic(operate: Callable[[Array, Array], Array], quotient: bool = False) -> Callable[..., Typed]:
    def build(compiler: Compiler, tree: exp.Expression) -> Typed:
        a, b, kind = numbers(*compiler.two(tree))
        if quotient:
            a, b, kind = widened(a, DOUBLE), widened(b, DOUBLE), DOUBLE
        left, right = a.run, b.run

        def run(columns: pa.RecordBatch) -> Values:
            x, y = left(columns), right(columns)
            with np.errstate(all="ignore"):
                data = operate(x.data, _filled(y)) if operate in _DIVIDING else operate(x.data, y.data)
            return Values(_finite(data) if kind is DOUBLE else data, both(x, y))

        return Typed(run, kind)

    return build


def _filled(values: Values) -> Array:
    """Where it is NULL, 1: a divisor that hurts nobody."""
    return values.data if values.valid is None else np.where(values.valid, values.data, 1).astype(values.data.dtype)


_DIVIDING = (_remainder, _whole, _divide)


def _negate(compiler: Compiler, tree: exp.Expression) -> Typed:
    typed = compiler.compile(tree.this)
    if typed.type not in (INT, DOUBLE):
        raise NotTaken("not a number")
    inner = typed.run

    def run(columns: pa.RecordBatch) -> Values:
        values = inner(columns)
        if typed.type is INT and _span(values.data) >= _LARGEST_INT:
            raise Unsure
        return Values(-values.data, values.valid)

    return Typed(run, typed.type)


ARITHMETIC: dict[type[exp.Expression], Callable[[Compiler, Any], Typed]] = {
    exp.Add: _arithmetic(_add),
    exp.Sub: _arithmetic(_subtract),
    exp.Mul: _arithmetic(_multiply),
    exp.Mod: _arithmetic(_remainder),
    exp.IntDiv: _arithmetic(_whole),
    exp.Div: _arithmetic(_divide, quotient=True),
    exp.Neg: _negate,
}

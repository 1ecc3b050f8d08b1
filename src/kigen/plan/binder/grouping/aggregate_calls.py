"""Binds one call of an aggregate: its function, arguments, DISTINCT, FILTER and ORDER BY.

Invariant: FILTER becomes a CASE inside the argument, so that tuples that it leaves out are NULL, which aggregates
ignore; first, last and list keep NULLs, and carry the condition beside them. An order is complete: after the keys that
the user wrote come all columns of the inputs, ascending, so that equal keys give one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import check_scalar, place_of, predicate, resolve, typed
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.from_clause.conjuncts import Base
from kigen.plan.binder.scope import Scope
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import BIRTH, Agg, AggFunc, Expr, SortKey
from kigen.plan.types import LARGEST_PRECISION, Type

_FUNCS: dict[type[exp.Expr], AggFunc] = {
    exp.Count: AggFunc.COUNT,
    exp.Sum: AggFunc.SUM,
    exp.Avg: AggFunc.AVG,
    exp.Min: AggFunc.MIN,
    exp.Max: AggFunc.MAX,
    exp.Stddev: AggFunc.STDDEV_SAMP,
    exp.StddevSamp: AggFunc.STDDEV_SAMP,
    exp.StddevPop: AggFunc.STDDEV_POP,
    exp.Variance: AggFunc.VAR_SAMP,
    exp.VariancePop: AggFunc.VAR_POP,
    exp.LogicalAnd: AggFunc.BOOL_AND,
    exp.LogicalOr: AggFunc.BOOL_OR,
    exp.Median: AggFunc.QUANTILE,
    exp.PercentileCont: AggFunc.QUANTILE,
    exp.ArgMin: AggFunc.ARG_MIN,
    exp.ArgMax: AggFunc.ARG_MAX,
    exp.First: AggFunc.FIRST,
    exp.Last: AggFunc.LAST,
    exp.GroupConcat: AggFunc.STRING_AGG,
    exp.ArrayAgg: AggFunc.LIST,
}
_SPREADS = (AggFunc.STDDEV_SAMP, AggFunc.STDDEV_POP, AggFunc.VAR_SAMP, AggFunc.VAR_POP)
_BOOLEANS = (AggFunc.BOOL_AND, AggFunc.BOOL_OR)
_DISTINCT = (AggFunc.COUNT, AggFunc.SUM, AggFunc.AVG, *_SPREADS)
_SAME_WITH_DISTINCT = (AggFunc.MIN, AggFunc.MAX, *_BOOLEANS)
_CHOICES = (AggFunc.FIRST, AggFunc.LAST)
_TWO: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "write quantile_cont(x, 0.9)",
    exp.ArgMin: "write arg_min(x, y): the x of the row with the least y",
    exp.ArgMax: "write arg_max(x, y): the x of the row with the greatest y",
}


@dataclass(frozen=True)
class Ordering:
    """An order key as an expression; None stands for the row's birth."""

    expr: Expr | None
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Call:
    """A bound call; its expressions are over the columns below the Aggregate."""

    func: AggFunc
    arg: Expr | None
    type: Type
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    parameter: float | str | None = None
    condition: Expr | None = None

    @property
    def exprs(self) -> list[Expr]:
        found = [self.arg, self.condition, *(key.expr for key in self.order)]
        return [expr for expr in found if expr is not None]

    def placed(self, at: Mapping[Expr, int]) -> Agg:
        """Returns the aggregate over columns, where `at` says which column an expression is."""
        order = tuple(
            SortKey(BIRTH if key.expr is None else at[key.expr], key.descending, key.nulls_first) for key in self.order
        )
        arg, condition = (None if expr is None else at[expr] for expr in (self.arg, self.condition))
        return Agg(self.func, arg, self.type, self.distinct, order, self.parameter, condition)


class CallBinder:
    """Binds the aggregate calls of one SELECT. `aliases` are items without aggregates, which arguments may use."""

    def __init__(self, scope: Scope, base: Base, aliases: Mapping[str, Term]) -> None:
        self.scope, self.base, self.aliases = scope, base, aliases
        self.source = scope.source

    def bind(self, node: exp.Expr) -> Call:
        condition: Expr | None = None
        if isinstance(node, exp.Filter):
            condition = self._condition(node.expression.this)
            node = node.this
        func = _FUNCS[type(node)]
        name = self._name(node)
        argument, distinct, order = self._opened(node, name)
        if func is AggFunc.COUNT and (argument is None or isinstance(argument, exp.Star)) and not distinct:
            if condition is None:
                return Call(AggFunc.COUNT_STAR, None, Type.BIGINT)
            one = Expr("CAST(1 AS BIGINT)", Type.BIGINT, "*")
            return Call(AggFunc.COUNT, _where(condition, one), Type.BIGINT)
        argument = self._checked(node, name, func, argument, distinct, order)
        expr = self._expr(argument)
        if func in _CHOICES:
            return self._choice(func, expr, order, condition)
        if func is AggFunc.LIST:
            return Call(func, expr, Type.list_of(expr.type), order=self._order(order), condition=condition)
        if func in (AggFunc.ARG_MIN, AggFunc.ARG_MAX):
            by = self._expr(node.expression)
            by = by if condition is None else _where(condition, by)
            keys = (Ordering(by, func is AggFunc.ARG_MAX), *self._every_column())
            return Call(func, expr, expr.type, order=keys)
        call = self._call(node, name, func, expr, distinct, order)
        if condition is None or call.arg is None:
            return call
        return Call(func, _where(condition, call.arg), call.type, call.distinct, call.order, call.parameter)

    # --- forms ----------------------------------------------------------------------------------------------------

    def _name(self, node: exp.Expr) -> str:
        """Returns the name of the function as the user wrote it."""
        tokens = self.source.tokens_in(place_of(self.source, node))
        return tokens[0].text if tokens else node.key

    def _opened(self, node: exp.Expr, name: str) -> tuple[exp.Expr | None, bool, list[exp.Ordered]]:
        """Takes DISTINCT and ORDER BY off the argument."""
        argument, order = node.this, list[exp.Ordered]()
        if isinstance(argument, exp.Order):
            argument, order = argument.this, argument.expressions
        if not isinstance(argument, exp.Distinct):
            return argument, False, order
        if isinstance(argument.this, exp.Order):  # DISTINCT x ORDER BY ...
            order = argument.this.expressions
        if len(argument.expressions) != 1:
            hint = f"write {name}(DISTINCT x), or count the rows of a subquery with SELECT DISTINCT"
            raise self._error(node, f"{name}(DISTINCT ...) takes one argument", hint)
        return argument.expressions[0], True, order

    def _checked(
        self,
        node: exp.Expr,
        name: str,
        func: AggFunc,
        argument: exp.Expr | None,
        distinct: bool,
        order: list[exp.Ordered],
    ) -> exp.Expr:
        if distinct and func not in (*_DISTINCT, *_SAME_WITH_DISTINCT):
            raise self._error(node, f"{name}(DISTINCT ...) is not part of CQL", "use a subquery with SELECT DISTINCT")
        if order and func not in (*_CHOICES, AggFunc.STRING_AGG, AggFunc.LIST):
            raise self._error(node, f"ORDER BY inside {name} is not part of CQL", f"write {name}(x)")
        if type(node) in _TWO:
            if argument is None or node.args.get("expression") is None or node.args.get("count"):
                raise self._error(node, f"{name} takes two arguments", _TWO[type(node)])
            return argument
        more = node.args.get("count") or node.args.get("nulls_excluded")  # where the parser puts a second argument
        if more or (node.expressions and not distinct) or argument is None:
            raise self._error(node, f"{name} takes one argument", f"write {name}(x)")
        return argument

    def _error(self, node: exp.Expr, message: str, hint: str) -> CqlError:
        return self.source.error(place_of(self.source, node), message, hint)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _expr(self, node: exp.Expr) -> Expr:
        return typed(self._term(node), self.base.types, self.base.place)

    def _term(self, node: exp.Expr) -> Term:
        check_scalar(self.source, node, "an aggregate")
        return resolve(self.scope, node, self.aliases, clause="an aggregate")

    def _condition(self, node: exp.Expr) -> Expr:
        return predicate(self._term(node), self.base.types, "FILTER", self.base.place)

    def _every_column(self) -> tuple[Ordering, ...]:
        schema = self.base.node.schema
        return tuple(Ordering(bare(schema, self.base.place(p))) for p in self.scope.positions())

    def _order(self, order: list[exp.Ordered]) -> tuple[Ordering, ...]:
        keys = [Ordering(self._expr(k.this), bool(k.args.get("desc")), bool(k.args.get("nulls_first"))) for k in order]
        return (*keys, *self._every_column())

    def _choice(self, func: AggFunc, expr: Expr, order: list[exp.Ordered], condition: Expr | None) -> Call:
        keys = self._order(order) if order else (Ordering(None), *self._every_column())
        return Call(func, expr, expr.type, order=keys, condition=condition)

    def _call(
        self, node: exp.Expr, name: str, func: AggFunc, expr: Expr, distinct: bool, order: list[exp.Ordered]
    ) -> Call:
        distinct = distinct and func in _DISTINCT
        if func is AggFunc.COUNT:
            return Call(func, expr, Type.BIGINT, distinct)
        if func in (AggFunc.MIN, AggFunc.MAX):
            return Call(func, expr, expr.type)
        if func is AggFunc.STRING_AGG:
            return self._string_agg(node, name, expr, order)
        if func in _BOOLEANS:
            if expr.type is not Type.BOOLEAN:
                raise self._error(node, f"{name} needs a BOOLEAN, got {expr.type}", f"write {name}(x > 0)")
            return Call(func, _cast(expr, Type.BIGINT), Type.BOOLEAN)
        if func is AggFunc.SUM and expr.type is Type.BOOLEAN:  # DuckDB counts the true values
            expr = _cast(expr, Type.BIGINT)
        if expr.type.is_decimal and func is AggFunc.QUANTILE:
            hint = f"write {name}(CAST(... AS DOUBLE)"
            hint += ")" if isinstance(node, exp.Median) else ", fraction)"
            raise self._error(node, f"{name} of a DECIMAL is not part of CQL", hint)
        if expr.type not in (Type.BIGINT, Type.DOUBLE) and not expr.type.is_decimal:
            instead = (
                "epoch_us(...)"
                if expr.type in (Type.TIMESTAMP, Type.DATE, Type.TIME)
                else f"CAST(... AS {'BIGINT' if expr.type is Type.BOOLEAN else 'DOUBLE'})"
            )
            raise self._error(node, f"{name} needs a number, got {expr.type}", f"write {name}({instead})")
        if func in _SPREADS and expr.type is not Type.DOUBLE:
            expr = _cast(expr, Type.DOUBLE)
        parameter = self._fraction(node, name) if func is AggFunc.QUANTILE else None
        kind = Type.DOUBLE if func is not AggFunc.SUM else expr.type
        if kind.is_decimal:  # as DuckDB: the digits after the point stay, and there is room for the sum
            kind = Type.decimal(LARGEST_PRECISION, kind.scale)
        return Call(func, expr, kind, distinct, parameter=parameter)

    def _fraction(self, node: exp.Expr, name: str) -> float:
        if isinstance(node, exp.Median):
            return 0.5
        given = node.expression
        if isinstance(given, exp.Literal) and not given.is_string and 0 <= float(given.name) <= 1:
            return float(given.name)
        raise self._error(given, f"{name} needs a fraction from 0 to 1 as a number", f"write {name}(x, 0.9)")

    def _string_agg(self, node: exp.Expr, name: str, expr: Expr, order: list[exp.Ordered]) -> Call:
        given = node.args.get("separator")
        if isinstance(given, exp.Order):  # string_agg(x, ', ' ORDER BY ...), as some versions of the parser read it
            given, order = given.this, given.expressions
        if given is not None and not (isinstance(given, exp.Literal) and given.is_string):
            raise self._error(given, f"the separator of {name} must be a text", f"write {name}(x, ', ' ORDER BY x)")
        if not order:
            hint = f"write {name}(x, ', ' ORDER BY x)"
            raise self._error(node, f"{name} needs ORDER BY: the tuples of a window have no order", hint)
        separator = "," if given is None else given.name
        text = expr if expr.type is Type.STRING else _cast(expr, Type.STRING)
        return Call(AggFunc.STRING_AGG, text, Type.STRING, order=self._order(order), parameter=separator)


def _cast(expr: Expr, kind: Type) -> Expr:
    return Expr(f"CAST({expr.sql} AS {kind.duckdb})", kind, expr.text)


def _where(condition: Expr, expr: Expr) -> Expr:
    sql = f"CASE WHEN {condition.sql} THEN {expr.sql} END"
    return Expr(sql, expr.type, f"{expr.text} where {condition.text}")

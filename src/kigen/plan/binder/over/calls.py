"""Binds functions OVER (PARTITION BY ... ORDER BY ...) in the items of a SELECT and in QUALIFY.

A column stands in place of each call while the rest is bound, as for sub-queries. The calls see the rows after WHERE,
or after GROUP BY and HAVING. Calls with the same OVER share a node. Invariant: an order is complete. After the keys
that the user wrote come all columns of those rows, ascending, NULLs last: all columns of FROM, or keys and aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import place_of, typed
from kigen.plan.binder.expressions.duckdb_types import common_type
from kigen.plan.binder.expressions.terms import FIRST_CALL, Term, name_of_call, position_of_call
from kigen.plan.binder.from_clause.conjuncts import Base
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Expr, Over, OverCall, OverFunc, PlanNode, Project, SortKey
from kigen.plan.types import Type

_FUNCS: dict[type[exp.Expr], OverFunc] = {
    exp.RowNumber: OverFunc.ROW_NUMBER,
    exp.Rank: OverFunc.RANK,
    exp.DenseRank: OverFunc.DENSE_RANK,
    exp.Lag: OverFunc.LAG,
    exp.Lead: OverFunc.LEAD,
}
_KNOWN = "ROW_NUMBER, RANK, DENSE_RANK, LAG and LEAD"
_FARTHEST = 10**9
TermOf = Callable[[exp.Expr], Term]


def reads_calls(node: exp.Expr) -> bool:
    """Returns whether a call was part of the expression."""
    return any(position_of_call(column.name) is not None for column in node.find_all(exp.Column))


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window)


@dataclass(frozen=True)
class _Call:
    """A call whose names are resolved."""

    func: OverFunc
    place: Span
    by: tuple[Term, ...]
    order: tuple[tuple[Term, bool, bool], ...]  # descending, NULLs first
    arg: Term | None = None
    distance: int = 1
    default: Term | None = None

    @property
    def over(self) -> tuple[object, ...]:
        """Returns what calls that share a node have in common."""
        return tuple(t.sql().text for t in self.by), tuple((t.sql().text, *how) for t, *how in self.order)


class OverCalls:
    """The calls of one SELECT, in the order of their positions."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes: list[exp.Window] = []
        self._calls: list[_Call] = []

    def replaced(self, node: exp.Expr) -> exp.Expr:
        """Returns the expression with a column in place of every call."""
        for part in [found for found in node.walk(prune=_is_call) if _is_call(found)]:
            assert isinstance(part, exp.Window)
            inner = [found for found in part.find_all(exp.Window) if found is not part]
            if inner:
                hint = "compute the inner one in a subquery"
                raise self._error(inner[0], "OVER inside OVER is not part of CQL", hint)
            self._check(part)
            column = exp.Column(this=exp.Identifier(this=name_of_call(len(self.nodes)), quoted=True))
            column.meta["span"] = place_of(self.source, part)
            self.nodes.append(part)
            if part is node:
                return column
            part.replace(column)
        return node

    def _check(self, node: exp.Window) -> None:
        call = node.this
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            raise self._error(node, "IGNORE NULLS is not part of CQL", "leave NULLs out in a subquery in FROM")
        if type(call) not in _FUNCS:
            hint = f"there are {_KNOWN}; for others use GROUP BY in a subquery, and join with it"
            raise self._error(node, "this function cannot be used with OVER", hint)
        if node.args.get("alias") is not None or node.args.get("spec") is not None:
            what = "a named window" if node.args.get("alias") is not None else "a frame such as ROWS BETWEEN"
            raise self._error(node, f"{what} is not part of CQL", "write OVER (PARTITION BY ... ORDER BY ...)")

    def _error(self, node: exp.Expr, message: str, hint: str) -> CqlError:
        return self.source.error(place_of(self.source, node), message, hint)

    # --- names --------------------------------------------------------------------------------------------------------

    def resolve(self, term_of: TermOf) -> None:
        """Resolves the names in all calls."""
        self._calls = [self._call(node, term_of) for node in self.nodes]

    def _call(self, node: exp.Window, term_of: TermOf) -> _Call:
        order = node.args.get("order")
        keys = tuple(
            (term_of(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            for key in (order.expressions if order is not None else ())
        )
        by = tuple(term_of(part) for part in node.args.get("partition_by") or ())
        call, func = node.this, _FUNCS[type(node.this)]
        place = place_of(self.source, node)
        if func not in (OverFunc.LAG, OverFunc.LEAD):
            return _Call(func, place, by, keys)
        default = call.args.get("default")
        default = None if default is None or isinstance(default, exp.Null) else term_of(default)
        return _Call(func, place, by, keys, term_of(call.this), self._distance(call), default)

    def _distance(self, call: exp.Expr) -> int:
        given = call.args.get("offset")
        if given is None:
            return 1
        text = given.name if isinstance(given, exp.Literal) and not given.is_string else ""
        if not text.isdigit() or int(text) > _FARTHEST:
            name = type(call).__name__.upper()
            message = f"{name} needs a whole number of rows from 0 to {_FARTHEST:,}"
            raise self._error(given, message, f"write {name}(x, 1)")
        return int(text)

    # --- the plan -----------------------------------------------------------------------------------------------------

    def attached(self, base: Base, ties: Sequence[int], different: bool = False) -> Base:
        """Returns the rows with the values of all calls as further columns. `ties` are the columns of the node that
        break ties. `different`: no two rows are equal."""
        places = dict(base.places)
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, call in enumerate(self._calls):
            groups.setdefault(call.over, []).append(number)
        node = base.node
        if len(groups) > 1 and not different:  # equal rows are numbered, so that all calls see them in one order
            order = tuple(SortKey(column) for column in ties)
            node = Over(node, tuple(ties), order, 0, (OverCall(OverFunc.ROW_NUMBER, Type.BIGINT),))
            ties = [*ties, len(node.schema) - 1]
        for numbers in groups.values():
            node = self._added(node, base, numbers, ties, places)
        return Base(node, places)

    def _added(
        self, node: PlanNode, base: Base, numbers: list[int], ties: Sequence[int], places: dict[int, int]
    ) -> PlanNode:
        """Adds the calls `numbers`, which have one OVER, and their places."""
        wide = _Widened(node)
        first = self._calls[numbers[0]]

        def expr_of(term: Term) -> Expr:
            return typed(term, base.types, base.place)

        by = tuple(dict.fromkeys(wide.column(expr_of(term)) for term in first.by))
        keys: dict[int, SortKey] = {}
        for term, descending, nulls_first in first.order:
            column = wide.column(expr_of(term))
            keys.setdefault(column, SortKey(column, descending, nulls_first))
        order = dict(keys)
        for column in ties:
            order.setdefault(column, SortKey(column))
        calls: dict[OverCall, list[int]] = {}
        for number in numbers:
            calls.setdefault(self._bound(self._calls[number], wide, expr_of), []).append(number)
        child = wide.node()
        made = Over(child, by, tuple(order.values()), len(keys), tuple(calls))
        for place, same in enumerate(calls.values()):
            places |= dict.fromkeys((FIRST_CALL + number for number in same), len(child.schema) + place)
        return made

    def _bound(self, call: _Call, wide: _Widened, expr_of: Callable[[Term], Expr]) -> OverCall:
        if call.arg is None:
            return OverCall(call.func, Type.BIGINT)
        value = expr_of(call.arg)
        if call.default is None:
            return OverCall(call.func, value.type, wide.column(value), call.distance)
        default = expr_of(call.default)
        if common_type(value.type, default.type) is None:
            message = f"the default of {call.func.value} is {default.type}, its value is {value.type}"
            raise self.source.error(call.default.span, message, f"write CAST(... AS {value.type})")
        if default.type is not value.type:  # as in DuckDB, the default becomes what the value is
            default = Expr(f"CAST({default.sql} AS {value.type.duckdb})", value.type, default.text)
        return OverCall(call.func, value.type, wide.column(value), call.distance, wide.column(default))


class _Widened:
    """A node with computed columns beside its own."""

    def __init__(self, node: PlanNode) -> None:
        self._node = node
        self._extra: dict[Expr, int] = {}

    def column(self, expr: Expr) -> int:
        if expr.column is not None:
            return expr.column
        return self._extra.setdefault(expr, len(self._node.schema) + len(self._extra))

    def node(self) -> PlanNode:
        schema = self._node.schema
        if not self._extra:
            return self._node
        exprs = (*(bare(schema, i) for i in range(len(schema))), *self._extra)
        return Project(self._node, exprs, (*(c.name for c in schema), *(e.text for e in self._extra)))

"""Decides whether QUALIFY only takes the first rows of each group, which is cheaper than numbering all rows. Refuses
functions with OVER in clauses that come before them.

`QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n` over output columns is LIMIT n BY. Every other
condition is a filter above the functions that it reads. A name that is both an output column and a column of FROM means
the latter, so only an output column that is just that column counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import place_of
from kigen.plan.binder.over.calls import reads_calls
from kigen.plan.binder.scope import Scope

_COMPARISONS = (exp.LTE, exp.LT, exp.EQ)


@dataclass(frozen=True)
class Output:
    """An output column: its name, and its expression or the position of its column in the scope."""

    name: str
    node: exp.Expr | None
    position: int | None


def refuse_early(scope: Scope, select: exp.Select, outputs: Sequence[Output]) -> None:
    """Raises if WHERE, GROUP BY or HAVING names an item with OVER."""
    called = {output.name.lower() for output in outputs if output.node is not None and reads_calls(output.node)}
    for clause, word in (("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING")):
        node = select.args.get(clause)
        for column in node.find_all(exp.Column) if node is not None and called else ():
            if column.name.lower() in called and not column.table and scope.find(column) is None:
                raise called_early(scope.source, place_of(scope.source, column), column.name, word)


def called_early(source: Source, place: Span, name: str, clause: str) -> CqlError:
    hint = "write the condition in QUALIFY, or compute it in a subquery in FROM"
    return source.error(place, f"{name} has OVER: it is computed after {clause}", hint)


def no_function(source: Source, condition: exp.Expr) -> CqlError:
    message = "QUALIFY needs a function with OVER, in it or in SELECT"
    return source.error(place_of(source, condition), message, "write WHERE, or HAVING if it reads an aggregate")


def takes_first_rows(scope: Scope, condition: exp.Expr, outputs: Sequence[Output]) -> bool:
    """Returns whether the condition is `ROW_NUMBER() OVER (...) <= n`, `< n` or `= n` over output columns."""
    if not isinstance(condition, _COMPARISONS):
        return False
    window, number = condition.this, condition.expression
    if not isinstance(window, exp.Window) or not isinstance(window.this, exp.RowNumber):
        return False
    if not isinstance(number, exp.Literal) or number.is_string or window.args.get("order") is None:
        return False
    if window.args.get("spec") is not None or window.args.get("alias") is not None:
        return False
    known = _Outputs(scope, outputs)
    keys = [key.this for key in window.args["order"].expressions]
    return all(map(known.is_one, window.args.get("partition_by") or [])) and all(map(known.has, keys))


class _Outputs:
    def __init__(self, scope: Scope, outputs: Sequence[Output]) -> None:
        self._scope, self._outputs = scope, outputs
        starred = any(output.node is None for output in outputs)
        self._texts = set() if starred else {self._text(o.node) for o in outputs if o.node is not None}

    def _text(self, node: exp.Expr) -> str:
        source = self._scope.source
        return " ".join(token.text.lower() for token in source.tokens_in(place_of(source, node)))

    def is_one(self, node: exp.Expr) -> bool:
        """Returns whether the expression is an output column."""
        return self._text(node) in self._texts or (isinstance(node, exp.Column) and self._is_named(node))

    def has(self, node: exp.Expr) -> bool:
        """Returns whether the expression is an output column, or reads nothing else."""
        columns = list(node.find_all(exp.Column))
        return self._text(node) in self._texts or (bool(columns) and all(map(self._is_named, columns)))

    def _is_named(self, column: exp.Column) -> bool:
        found = [output for output in self._outputs if output.name.lower() == column.name.lower()]
        if not found or len(column.parts) > 1:
            return False
        output = found[0]
        try:
            position = self._scope.find(column)
            own = self._scope.find(output.node) if isinstance(output.node, exp.Column) else output.position
        except CqlError:
            return False
        return position is None or position == own

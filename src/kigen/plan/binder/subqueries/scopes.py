"""Resolves names in a sub-query that reads the outer query: its own inputs first, then those of the outer query."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.scope import Scope
from kigen.plan.types import Type


class CorrelatedScope(Scope):
    """The positions of the inner scope, then those of the outer one."""

    def __init__(self, inner: Scope, outer: Scope) -> None:
        super().__init__(inner.source, inner.inputs, inner.merged, inner.hidden, inner.fused)
        self.inner, self.outer = inner, outer

    @property
    def shift(self) -> int:
        """How much is added to positions of the outer scope."""
        return len(self.inner.types)

    @property
    def types(self) -> tuple[Type, ...]:
        return self.inner.types + self.outer.types

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names + self.outer.names

    def find(self, column: exp.Column, since: int = 0) -> int | None:
        table = column.args.get("table")
        found = self.inner.find(column, since) if table is None or self._is_inner(table) else None
        if found is not None or (table is not None and self._is_inner(table)):
            return found
        found = self.outer.find(column)
        return None if found is None else self.shift + found

    def unknown(self, column: exp.Column, extra: tuple[str, ...] = ()) -> CqlError:
        table = column.args.get("table")
        return (self.inner if table is None or self._is_inner(table) else self.outer).unknown(column, extra)

    def _is_inner(self, table: exp.Identifier) -> bool:
        return any((i.alias or "").lower() == table.name.lower() for i in self.inner.inputs)


def shifted(term: Term, by: int) -> Term:
    """Returns the term with `by` added to its positions."""
    refs = tuple(
        replace(r, target=r.target + by if isinstance(r.target, int) else shifted(r.target, by)) for r in term.refs
    )
    return replace(term, refs=refs)

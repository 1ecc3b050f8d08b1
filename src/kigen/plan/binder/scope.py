"""Resolves the names that a query can see: its inputs in the order of FROM, and their columns as one list of positions.

Invariant: position p of the scope is the same column everywhere in one SELECT, in whatever order the inputs are joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from kigen.language.app_text import Source, Span, span_of
from kigen.language.errors import CqlError, suggest
from kigen.plan.logical import WINDOW_END, WINDOW_START, Expr, PlanNode, Project
from kigen.plan.types import Type


@dataclass(frozen=True)
class Relation:
    """A node and the names of its columns in this scope; aliases never reach the nodes."""

    node: PlanNode
    names: tuple[str, ...]

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.node.schema)


@dataclass(frozen=True)
class Input:
    alias: str | None
    relation: Relation
    offset: int  # position of its first column in the scope
    called: str | None = None  # the stream's own name, for hints
    place: Span = (0, 1)  # in FROM


@dataclass
class Scope:
    source: Source
    inputs: list[Input] = field(default_factory=list)
    merged: dict[int, int] = field(default_factory=dict)  # USING: right column -> left column merged with it
    hidden: set[int] = field(default_factory=set)  # columns that nobody can name: values of sub-queries
    fused: dict[int, int] = field(default_factory=dict)  # USING of RIGHT and FULL joins: left column -> column of both

    def add(self, alias: str | None, relation: Relation, called: str | None, span: Span) -> Input:
        if alias is not None and any(i.alias is not None and i.alias.lower() == alias.lower() for i in self.inputs):
            raise self.source.error(
                span,
                f"{alias} appears twice in FROM",
                f"give one of them another name: {called or alias} [...] AS {alias}2",
            )
        entry = Input(alias, relation, len(self.types), called, span)
        self.inputs.append(entry)
        return entry

    def fuse(self, left: int, right: int, expr: Expr) -> int:
        """Adds a column that stands for a left and a right column where they are named without a table."""
        position = self._column(self.names[left], expr.type)
        for shown in (left, *(p for p, q in self.fused.items() if q == left)):
            self.fused[shown] = position
        for hidden in (left, right, *(p for p, q in self.merged.items() if q in (left, right))):
            self.merged[hidden] = position
        return position

    def hide(self, name: str, kind: Type) -> int:
        """Adds a column that * does not show."""
        position = self._column(name, kind)
        self.hidden.add(position)
        return position

    def _column(self, name: str, kind: Type) -> int:
        node = Project(self.inputs[0].relation.node, (Expr(f"CAST(NULL AS {kind.duckdb})", kind, name),), (name,))
        return self.add(None, Relation(node, (name,)), None, (0, 1)).offset

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(t for i in self.inputs for t in i.relation.types)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for i in self.inputs for n in i.relation.names)

    def positions(self) -> list[int]:
        """Returns the columns that break ties where an order decides: all but the values of sub-queries."""
        return [position for position in range(len(self.types)) if position not in self.hidden]

    def input_of(self, position: int) -> int:
        return max(k for k, i in enumerate(self.inputs) if i.offset <= position and i.relation.names)

    def tables(self) -> tuple[tuple[str, tuple[tuple[str, Type], ...]], ...]:
        return tuple(
            (i.alias or f"unnamed{k}", _shown_columns(i.relation))
            for k, i in enumerate(self.inputs)
            if i.offset not in self.hidden
        )

    def star(self, table: exp.Identifier | None = None) -> list[tuple[int, str]]:
        inputs = self.inputs if table is None else [self._input(table)]
        every = [(i.offset + k, name) for i in inputs for k, name in enumerate(i.relation.names)]
        columns = [(position, name) for position, name in every if name not in (WINDOW_START, WINDOW_END)]
        if table is not None:
            return columns
        fused = self.hidden | set(self.fused.values())
        shown = [(self.fused.get(position, position), name) for position, name in columns if position not in fused]
        return [c for c in shown if c[0] not in self.merged]

    def find(self, column: exp.Column, since: int = 0) -> int | None:
        """Returns the position of a column; None if no column has that name. Raises if the name is ambiguous or its
        table is unknown."""
        name = column.name.lower()
        table = column.args.get("table")
        inputs = self.inputs[since:] if table is None else [self._input(table, since)]
        found = [i.offset + k for i in inputs for k, n in enumerate(i.relation.names) if n.lower() == name]
        found = sorted({self.merged.get(p, p) if table is None else p for p in found})
        if len(found) > 1:
            owners = [self.inputs[self.input_of(p)].alias or "a subquery" for p in found]
            raise self.source.error(
                self._span(column),
                f"{column.name} is ambiguous: it is in {' and '.join(owners)}",
                f"write {owners[0]}.{column.name}",
            )
        return found[0] if found else None

    def unknown(self, column: exp.Column, extra: tuple[str, ...] = ()) -> CqlError:
        table = column.args.get("table")
        known = self.names if table is None else self._input(table).relation.names
        where = "" if table is None else f" in {table.name}"
        shown = [name for name in (*known, *extra) if not name.startswith(("\0", "\1"))]
        hint = suggest(column.name, dict.fromkeys(shown), "columns here")
        span = self._span(column) if table is None else span_of(column.this) or self._span(column)
        return self.source.error(span, f"unknown column {column.name}{where}", hint)

    def _input(self, table: exp.Identifier, since: int = 0) -> Input:
        for entry in self.inputs[since:]:
            if entry.alias is not None and entry.alias.lower() == table.name.lower():
                return entry
        span = span_of(table) or (0, 1)
        for entry in self.inputs:
            if entry.called is not None and entry.called.lower() == table.name.lower() and entry.alias:
                raise self.source.error(
                    span,
                    f"{table.name} is called {entry.alias} here",
                    f"write {entry.alias}.{table.parent.name if isinstance(table.parent, exp.Column) else '*'}",
                )
        aliases = [i.alias for i in self.inputs if i.alias]
        raise self.source.error(span, f"{table.name} is not in FROM", suggest(table.name, aliases, "available in FROM"))

    def _span(self, node: exp.Expr) -> Span:
        return span_of(node) or (0, 1)


def _shown_columns(relation: Relation) -> tuple[tuple[str, Type], ...]:
    pairs = zip(relation.names, relation.types, strict=True)
    return tuple((name, kind) for name, kind in pairs if name not in (WINDOW_START, WINDOW_END))

"""Resolves the names in FROM: declared streams, and queries, which are bound on first use in any order.

Invariant: a query is bound once. A query with errors is reported once, and queries that read it are dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from kigen.language.app_text import Source, Span, span_of
from kigen.language.declarations import QueryDecl, WindowDecl
from kigen.language.errors import CqlError, CqlErrors, suggest
from kigen.plan.binder.scope import Relation
from kigen.plan.estimates import declared_rates
from kigen.plan.logical import WINDOW_END, WINDOW_START, PlanNode, Query, Scan, SourceStream, Table, Window, WindowKind
from kigen.plan.types import Type

_KINDS = {
    "RANGE": WindowKind.RANGE,
    "ROWS": WindowKind.ROWS,
    "PARTITION": WindowKind.PARTITION_ROWS,
    "SESSION": WindowKind.SESSION,
    "UNTIL": WindowKind.UNTIL,
    "NOW": WindowKind.NOW,
    "UNBOUNDED": WindowKind.UNBOUNDED,
}


class AlreadyReported(CqlErrors):
    """Raised for a query that depends on something whose error has already been reported."""

    def __init__(self) -> None:
        super().__init__([])


@dataclass
class Catalog:
    source: Source
    bind_query: Callable[[Catalog, QueryDecl], Query]
    errors: list[CqlError] = field(default_factory=list)
    streams: dict[str, SourceStream] = field(default_factory=dict)
    declared: dict[str, QueryDecl] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # all declared names: lower-case -> as written
    tables: dict[str, Relation] = field(default_factory=dict)  # of WITH, by lower-case name
    root: Catalog | None = None  # the catalog of the whole file, if this one is inside a WITH
    _bound: dict[str, Query | None] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    @property
    def rates(self) -> dict[str, float]:
        """Returns the tuples per second of the streams that declare a rate."""
        return declared_rates(self.streams.values())

    def query(self, name: str) -> Query | None:
        """Returns the bound query; None if it has errors, which are then reported."""
        key = name.lower()
        if key not in self._bound:
            decl = self.declared[key]
            self._open.append(key)
            try:
                self._bound[key] = self.bind_query(self.root or self, decl)
            except CqlError as error:
                self.errors.append(error)
                self._bound[key] = None
            except CqlErrors as found:
                self.errors.extend(found.errors)
                self._bound[key] = None
            finally:
                self._open.pop()
        return self._bound[key]

    def within(self, tables: dict[str, Relation]) -> Catalog:
        """Returns the catalog as the body of a WITH sees it: tables of WITH hide streams and queries of their name."""
        return replace(self, tables=self.tables | tables, root=self.root or self)

    def relation(self, table: exp.Table) -> Relation:
        """Returns the relation that a table name in FROM, with its window, stands for."""
        span = span_of(table.this) or span_of(table) or (0, 1)
        if table.args.get("db") or not isinstance(table.this, exp.Identifier):
            raise self.source.error(
                span, "only streams and queries of this file can be read", "write the name of a stream or query"
            )
        window: WindowDecl | None = table.meta.get("window")
        key = table.name.lower()
        if key in self.tables:
            if window is not None:
                raise self.source.error(
                    window.span,
                    f"{table.name} of WITH is a relation, which takes no window",
                    f"write FROM {table.name}",
                )
            return self.tables[key]
        if key in self.streams:
            return self._stream(self.streams[key], window, span, bool(table.meta.get("bounds")))
        if key in self.declared:
            return self._query(table.name, window, span, bool(table.meta.get("bounds")))
        if key in self.names:
            raise AlreadyReported
        raise self.source.error(
            span,
            f"there is no stream or query {table.name}",
            suggest(table.name, self.names.values(), "streams and queries"),
        )

    def _stream(self, stream: SourceStream, window: WindowDecl | None, span: Span, bounds: bool) -> Relation:
        if stream.table:
            if window is not None:
                raise self.source.error(
                    window.span, f"{stream.name} is a table, which takes no window", f"write FROM {stream.name}"
                )
            return Relation(
                Table(Scan(stream.name, stream.schema), stream.changes), tuple(c.name for c in stream.schema)
            )
        if window is None:
            raise self._missing_window(stream.name, f"stream {stream.name}", span)
        return self._windowed(Scan(stream.name, stream.schema), window, bounds)

    def _query(self, name: str, window: WindowDecl | None, span: Span, bounds: bool) -> Relation:
        key = name.lower()
        if key in self._open:
            cycle = [*self._open[self._open.index(key) :], key]
            names = " -> ".join(self.declared[k].name.text for k in cycle)
            raise self.source.error(
                span, f"queries read from each other in a cycle: {names}", "make one of them read from a stream instead"
            )
        query = self.query(name)
        if query is None:
            raise AlreadyReported
        if not query.root.is_stream:
            if window is not None:
                raise self.source.error(
                    window.span,
                    f"query {query.name} produces a relation, which takes no window",
                    f"write FROM {query.name}",
                )
            return Relation(query.root, tuple(c.name for c in query.schema))
        if window is None:
            kind = self.declared[key].stream_op
            raise self._missing_window(
                query.name, f"query {query.name} produces a stream ({kind.kind if kind else 'ISTREAM'}), which", span
            )
        return self._windowed(query.root, window, bounds)

    def _missing_window(self, name: str, what: str, span: Span) -> CqlError:
        return self.source.error(
            span,
            f"{what} needs a window",
            f"write {name} [RANGE n SECONDS], {name} [ROWS n], {name} [NOW] or {name} [UNBOUNDED]",
        )

    def _windowed(self, node: PlanNode, window: WindowDecl, bounds: bool) -> Relation:
        names = tuple(c.name for c in node.schema)
        lower = [n.lower() for n in names]
        partition: list[int] = []
        for column in window.partition:
            if column.text.lower() not in lower:
                raise self.source.error(
                    column.span, f"unknown column {column.text}", suggest(column.text, names, "columns here")
                )
            partition.append(lower.index(column.text.lower()))
        kind = _KINDS[window.kind]
        if kind is WindowKind.UNTIL and node.schema[partition[0]].type is not Type.TIMESTAMP:
            (column,) = window.partition
            stamps = [c.name for c in node.schema if c.type is Type.TIMESTAMP]
            message = f"UNTIL needs a TIMESTAMP column, {column.text} is {node.schema[partition[0]].type}"
            raise self.source.error(column.span, message, suggest(column.text, stamps, "TIMESTAMP columns here"))
        # A tuple of a RANGE window lives as long in its partition as in all.
        kept = () if kind is WindowKind.RANGE else tuple(dict.fromkeys(partition))
        made = Window(node, kind, window.size, window.slide_us, kept, window.span, bounds)
        return Relation(made, (*names, WINDOW_START, WINDOW_END) if bounds else names)

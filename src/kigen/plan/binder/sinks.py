"""Checks `INTO` against the results that it writes: the mode fits them, and the key names columns that can be a key."""

from __future__ import annotations

import re

from kigen.language.app_text import Source, Span
from kigen.language.declarations import AppDecl, ConnectorDecl, QueryDecl
from kigen.language.errors import CqlWarning, suggest
from kigen.plan.binder.connectors import bind_connector
from kigen.plan.connectors.registry import spec_of
from kigen.plan.logical import LINES, Connector, Filter, PlanNode, Project, Query, Window, WindowKind

_BY_KEY = ("upsert", "current")
_NULL = re.compile(r"(try_)?(cast)?\(*null\)*(as\w+\))?(::\w+)?", re.IGNORECASE)


def bind_sink(source: Source, decl: ConnectorDecl | None) -> Connector | None:
    return None if decl is None else bind_connector(source, decl, place="sink")


def bind_rows_sink(source: Source, decl: ConnectorDecl | None) -> Connector | None:
    """Binds an output of tuples that are no results of a query, such as those that SHED removes: they are appended."""
    bound = bind_sink(source, decl)
    if decl is not None and bound is not None and bound.name == "spark":
        raise source.error(decl.name.span, "these rows cannot go to a writer of Spark", "write INTO csv (path = '...')")
    if decl is not None and bound is not None and bound.option("mode", "append") != "append":
        message = "these rows have no lifetime: mode 'append' is required"
        raise source.error(_span(decl, "mode"), message, "leave it out")
    return bound


def check_mode(source: Source, decl: QueryDecl, query: Query) -> None:
    """Raises CqlError if the mode of INTO does not fit the query."""
    if query.into is None or decl.into is None:
        return
    parts = query.into.option("partition_by")
    if parts is not None:
        _check_columns(source, _span(decl.into, "partition_by"), str(parts), query, "partition_by")
    key = query.into.option("key")
    if query.mode not in _BY_KEY:
        if key is not None:
            modes = " or ".join(f"mode = '{mode}'" for mode in spec_of(query.into.name).modes if mode in _BY_KEY)
            message = f"key has no meaning with mode '{query.mode}'"
            raise source.error(_span(decl.into, "key"), message, f"leave it out, or add {modes}")
        return
    if query.root.is_stream:
        message = f"mode '{query.mode}' needs a relation, and query {query.name} is a stream"
        raise source.error(_span(decl.into, "mode"), message, "write mode = 'append', or leave out the ISTREAM(...)")
    if key is None:
        columns = ", ".join(column.name for column in query.schema)
        hint = f"add key = '...' with columns that tell the rows apart; there are: {columns}"
        raise source.error(_span(decl.into, "mode"), f"mode '{query.mode}' needs option key", hint)
    _check_key(source, _span(decl.into, "key"), str(key), query)


def _check_columns(source: Source, span: Span, written: str, query: Query, option: str) -> None:
    names = [column.name for column in query.schema]
    wanted = [name.strip() for name in written.split(",") if name.strip()]
    for name in wanted:
        if name.lower() not in {known.lower() for known in names}:
            raise source.error(span, f"query {query.name} has no column {name}", suggest(name, names, "columns here"))
    if len({name.lower() for name in wanted}) < len(wanted) or not wanted:
        raise source.error(span, f"{option} names each of its columns once", f"write {option} = '{names[0]}'")


def _check_key(source: Source, span: Span, key: str, query: Query) -> None:
    _check_columns(source, span, key, query, "key")
    names = [column.name for column in query.schema]
    for place in query.key:
        if isinstance(query.root, Project) and _NULL.fullmatch("".join(query.root.exprs[place].sql.split())):
            message = f"column {names[place]} is always NULL, so it cannot be a key"
            raise source.error(span, message, "name a column that tells the rows apart")


def mode_warnings(declared: AppDecl, queries: tuple[Query, ...]) -> list[CqlWarning]:
    """Warns of relations with a deadline whose rows are written only when their death is known."""
    decls = {s.name.text: s for s in declared.statements if isinstance(s, QueryDecl)}
    found = []
    for query in queries:
        into = decls[query.name].into
        late = query.deadline_us is not None and not query.root.is_stream and not _lives_an_instant(query.root)
        if into is None or query.into is None or not late or LINES not in query.gives:
            continue
        message = (
            f"query {query.name} has a deadline, but mode 'append' writes a row only when its death is known, however "
            "long it lives"
        )
        modes = [mode for mode in spec_of(query.into.name).modes if mode != "append"]
        hint = " or ".join([*(f"mode = '{mode}'" for mode in modes), "ISTREAM(...)"])
        found.append(declared.source.warning(into.name.span, message, f"to learn of rows at their birth, write {hint}"))
    return found


def _lives_an_instant(node: PlanNode) -> bool:
    """Whether every row dies right after its birth, so that waiting for its death takes no time."""
    while isinstance(node, Project | Filter):
        node = node.child
    return isinstance(node, Window) and node.kind is WindowKind.NOW


def _span(decl: ConnectorDecl, option: str) -> Span:
    return next((o.span for o in decl.options if o.key.text.lower() == option), decl.name.span)

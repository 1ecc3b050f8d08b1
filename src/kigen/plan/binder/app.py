"""Turns an app file into an `App`: the entry points `bind` and `load_app`.

Invariant: the result is an App with every name and type resolved, or CqlErrors with all errors of the file in the order
of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kigen.language import CqlError, CqlErrors, QueryDecl, parse_app
from kigen.language.declarations import AppDecl, FunctionDecl, TableDecl
from kigen.language.expansion import Value
from kigen.language.statements import STATEMENTS
from kigen.plan.binder.bodies import bind_body
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.expressions.binding import place_of
from kigen.plan.binder.expressions.duckdb_types import declare
from kigen.plan.binder.files import check_outputs
from kigen.plan.binder.functions.declared import bind_function
from kigen.plan.binder.sinks import bind_rows_sink, bind_sink, check_mode, mode_warnings
from kigen.plan.binder.streams import bind_stream
from kigen.plan.binder.tables import always_alive, bind_table
from kigen.plan.costs import cost_warnings
from kigen.plan.deadlines import deadline_warnings
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import (
    App,
    Connector,
    Function,
    PlanNode,
    Project,
    Query,
    SetApart,
    StreamKind,
    ToStream,
    Window,
    errors_name,
)
from kigen.plan.paths import bad_name
from kigen.plan.rewrite import rewrite, set_apart

_OUR_COLUMNS = ("_from", "_to", "_at", "_op")


def load_app(path: str | Path, output: str | Path | None = None, params: Mapping[str, Value] | None = None) -> App:
    """Reads and binds an app file; relative paths in it start at its directory. `output` is the folder for results, if
    there is one. `params` are the values of its parameters."""
    file = Path(path)
    text, folder = file.read_text(encoding="utf-8"), str(file.resolve().parent)
    return bind(text, str(path), folder, None if output is None else str(output), params)


def bind(
    text: str,
    file_name: str = "<app>",
    directory: str = ".",
    output: str | None = None,
    params: Mapping[str, Value] | None = None,
    functions: tuple[Function, ...] = (),
) -> App:
    """Binds the text of an app file; raises CqlErrors with all its errors. `functions` are those that the program that
    binds it has registered."""
    declared = parse_app(text, file_name, directory, params)
    catalog = Catalog(declared.source, _bind_query, list(declared.errors))
    called = _functions(declared, catalog, directory, functions)
    streams = _declare(declared, catalog)
    bound_queries = {key: catalog.query(key) for key in catalog.declared}
    queries = [bound_queries[key] for key, decl in catalog.declared.items() if not decl.view]
    if catalog.errors:
        raise CqlErrors(catalog.errors)
    bound, failed = set_apart(rewrite(tuple(q for q in queries if q is not None)))
    costly = cost_warnings(bound, declared.source, catalog.rates)
    missed = deadline_warnings(declared, bound, catalog.rates)
    warnings = sorted([*costly, *mode_warnings(declared, bound), *missed], key=lambda found: (found.line, found.column))
    app = App(
        tuple(catalog.streams[k] for k in streams),
        bound + failed,
        directory,
        functions=called,
        warnings=tuple(warnings),
        text=declared.source.text,
    )
    check_outputs(declared, app, file_name, output)
    return app


def _functions(
    declared: AppDecl, catalog: Catalog, directory: str, registered: tuple[Function, ...]
) -> tuple[Function, ...]:
    """Makes functions known, so that expressions may call them. A statement goes before a function of the program."""
    found = {function.name.lower(): function for function in registered}
    written: dict[str, str] = {}
    for statement in declared.statements:
        if not isinstance(statement, FunctionDecl):
            continue
        try:
            if statement.name.text.lower() in written:
                first = written[statement.name.text.lower()]
                hint = "give one of them another name"
                raise declared.source.error(statement.name.span, f"function {first} is already declared", hint)
            written[statement.name.text.lower()] = statement.name.text
            found[statement.name.text.lower()] = bind_function(declared.source, statement, directory)
        except CqlError as error:
            catalog.errors.append(error)
        except CqlErrors as errors:
            catalog.errors += errors.errors
    for key, function in found.items():
        declare(function)
        declared.source.functions[key] = function.call
    return tuple(found.values())


def _declare(declared: AppDecl, catalog: Catalog) -> list[str]:
    order: list[str] = []
    for statement in declared.statements:
        if isinstance(statement, FunctionDecl):
            continue
        name = statement.name
        key = name.text.lower()
        if key in catalog.names:
            error = declared.source.error(
                name.span, f"{catalog.names[key]} is already declared", "give one of them another name"
            )
            catalog.errors.append(error)
            continue
        catalog.names[key] = name.text
        wrong = bad_name(name.text)
        if wrong is not None:
            hint = "files and queues are named after it: use letters, digits and _"
            catalog.errors.append(declared.source.error(name.span, f"the name {name.text!r} {wrong}", hint))
        if isinstance(statement, QueryDecl):
            catalog.declared[key] = statement
            continue
        try:
            bound = bind_table if isinstance(statement, TableDecl) else bind_stream
            catalog.streams[key] = bound(declared.source, statement)  # type: ignore[arg-type]
            order.append(key)
        except CqlErrors as found:
            catalog.errors += found.errors
    _names_of_broken(declared, catalog)
    return order


def _names_of_broken(declared: AppDecl, catalog: Catalog) -> None:
    """Notes the names that statements with a syntax error would have declared, so that using one is not a second
    error."""
    tokens = declared.source.tokens
    for create, kind, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if create.text.upper() == "CREATE" and kind.text.upper() in STATEMENTS:
            catalog.names.setdefault(name.text.lower(), name.text)


def _bind_query(catalog: Catalog, decl: QueryDecl) -> Query:
    relation = bind_body(catalog, decl.body)
    into = bind_sink(catalog.source, decl.into)
    for name in relation.names:
        if name.lower() in _OUR_COLUMNS:
            message = f"the output of query {decl.name.text} has a column {name}, a name that is reserved for lifetimes"
            written = [
                t
                for t in catalog.source.tokens_in(place_of(catalog.source, decl.body))
                if t.text.lower() == name.lower()
            ]
            span = (written[0].start, written[0].end + 1) if written else decl.name.span
            raise catalog.source.error(span, message, f"give it another name, as in AS {name.strip('_')}_time")
    root = _named(relation.node, relation.names)
    _check_tables(catalog, decl, root)
    if decl.on_error_skip:
        root = SetApart(root, decl.name.text, _error_sink(catalog, decl))
    if decl.stream_op is not None:
        root = ToStream(root, StreamKind(decl.stream_op.kind), decl.stream_op.every_us)
    query = Query(decl.name.text, root, decl.deadline_us, decl.firm, decl.cost_us, into)
    check_mode(catalog.source, decl, query)
    return query


def _error_sink(catalog: Catalog, decl: QueryDecl) -> Connector | None:
    name = errors_name(decl.name.text)
    if decl.error_into is not None and name.lower() in catalog.names:
        hint = "give one of them another name"
        message = f"ON ERROR INTO makes a query {name}, but {catalog.names[name.lower()]} is already declared"
        raise catalog.source.error(decl.name.span, message, hint)
    return bind_rows_sink(catalog.source, decl.error_into)


def _check_tables(catalog: Catalog, decl: QueryDecl, root: PlanNode) -> None:
    """Raises for a query that reads only tables, and for a period over rows that are there at all times."""
    name = decl.name
    if not decl.view and not any(isinstance(node, Window) for node in root.walk()):
        raise catalog.source.error(
            name.span, f"query {name.text} reads only tables", "join the table with a stream: time passes with streams"
        )
    if decl.stream_op is not None and decl.stream_op.every_us is not None and always_alive(root):
        raise catalog.source.error(
            decl.stream_op.span,
            "RSTREAM with a period over rows that a table alone gives has no beginning",
            "make the stream the left side of the join, or write RSTREAM(...)",
        )


def _named(node: PlanNode, names: tuple[str, ...]) -> PlanNode:
    """Gives a root the query's column names; adds a projection for names alone only where they differ."""
    if tuple(c.name for c in node.schema) == names:
        return node
    if isinstance(node, Project):
        return Project(node.child, node.exprs, names)
    return Project(node, tuple(bare(node.schema, i) for i in range(len(names))), names)

"""Binds CREATE TABLE: columns, connector, key. Says which rows a table gives without any stream."""

from __future__ import annotations

from kigen.language.app_text import Source
from kigen.language.declarations import StreamDecl, TableDecl
from kigen.language.errors import CqlError, CqlErrors, suggest
from kigen.plan.binder.connectors import bind_connector
from kigen.plan.binder.streams import bind_schema
from kigen.plan.logical import (
    Aggregate,
    Connector,
    Except,
    Intersect,
    Join,
    PlanNode,
    SourceStream,
    Table,
    ToStream,
    Window,
)
from kigen.plan.types import Schema


def bind_table(source: Source, decl: TableDecl) -> SourceStream:
    """Returns the table; raises CqlErrors with everything that is wrong in its statement."""
    errors: list[CqlError] = []
    schema = bind_schema(source, StreamDecl(decl.name, decl.columns), errors)
    connector = _source(source, decl, errors)
    key = _key(source, decl, schema, errors)
    if errors or connector is None:
        raise CqlErrors(errors)
    return SourceStream(decl.name.text, schema, connector, table=True, key=key, refresh_us=decl.refresh_us)


def _source(source: Source, decl: TableDecl, errors: list[CqlError]) -> Connector | None:
    if decl.source is None:
        hint = "write FROM csv (path = '...') or FROM parquet (path = '...')"
        errors.append(source.error(decl.name.span, f"table {decl.name.text} has no FROM", hint))
        return None
    try:
        connector = bind_connector(source, decl.source, place="table")
    except CqlError as error:
        errors.append(error)
        return None
    except CqlErrors as found:
        errors += found.errors
        return None
    if connector.name == "kafka" and connector.option("mode") is None:
        message = f"table {decl.name.text} from kafka needs mode = 'upsert'"
        hint = "add mode = 'upsert': the newest message of each key is a row of the table"
        errors.append(source.error(decl.source.name.span, message, hint))
    return connector


def _key(source: Source, decl: TableDecl, schema: Schema, errors: list[CqlError]) -> tuple[int, ...]:
    names = [c.name.lower() for c in schema]
    found: list[int] = []
    for column in decl.key:
        if column.text.lower() in names:
            found.append(names.index(column.text.lower()))
        else:
            hint = suggest(column.text, [c.name for c in schema], "columns here")
            errors.append(source.error(column.span, f"unknown column {column.text}", hint))
    return tuple(dict.fromkeys(found))


def always_alive(node: PlanNode) -> bool:
    """Returns whether the relation may hold rows that only tables give, so that it has rows at all times."""
    if isinstance(node, Table):
        return True
    if isinstance(node, Window | ToStream):
        return False
    if isinstance(node, Join | Intersect):
        return always_alive(node.left) and always_alive(node.right)
    if isinstance(node, Except):
        return always_alive(node.left)
    if isinstance(node, Aggregate):
        return always_alive(node.child)
    return any(always_alive(child) for child in node.children)

"""Binds CREATE STREAM: columns, timestamp, connector, shedding."""

from __future__ import annotations

from kigen.language.app_text import Source
from kigen.language.declarations import TYPES_HINT, ConnectorDecl, ShedDecl, StreamDecl
from kigen.language.errors import CqlError, CqlErrors, suggest
from kigen.plan.binder.connectors import bind_connector
from kigen.plan.binder.expressions.binding import resolve, typed
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.binder.sinks import bind_rows_sink
from kigen.plan.connectors.registry import REGISTRY, spec_of
from kigen.plan.logical import Connector, Scan, Shed, SourceStream, calls_python
from kigen.plan.type_texts import declared_type
from kigen.plan.types import PLAIN_TYPES, Column, Schema, Type


def bind_stream(source: Source, decl: StreamDecl) -> SourceStream:
    """Returns the stream; raises CqlErrors with everything that is wrong in its statement."""
    errors: list[CqlError] = []
    schema = bind_schema(source, decl, errors)
    timestamp = _timestamp(source, decl, schema, errors)
    connector = _source(source, decl, schema, errors)
    if decl.ahead_us is not None and decl.timestamp is None:
        hint = "leave AHEAD out, or name the timestamp column with TIMESTAMP BY"
        errors.append(source.error(decl.name.span, f"AHEAD of stream {decl.name.text} needs TIMESTAMP BY", hint))
    if connector is not None:
        errors += _time_clauses(source, decl, connector)
    shed: Shed | None = None
    if decl.shed is not None and len(schema) == len(decl.columns):
        try:
            shed = _shed(source, decl.name.text, decl.shed, schema)
        except CqlError as error:
            errors.append(error)
        except CqlErrors as found:
            errors += found.errors
    error_into, late_into = (_rows_sink(source, into, errors) for into in (decl.error_into, decl.late_into))
    if decl.late_into is not None and decl.timestamp is None:
        hint = "leave LATE INTO out, or name the timestamp column with TIMESTAMP BY"
        errors.append(source.error(decl.name.span, f"no tuple of stream {decl.name.text} can be late", hint))
    if errors or connector is None:
        raise CqlErrors(errors)
    return SourceStream(
        decl.name.text,
        schema,
        connector,
        timestamp,
        decl.lateness_us,
        decl.on_error_skip,
        shed,
        decl.buffer,
        decl.ahead_us,
        decl.idle_us,
        error_into=error_into,
        late_into=late_into,
    )


def _rows_sink(source: Source, decl: ConnectorDecl | None, errors: list[CqlError]) -> Connector | None:
    try:
        return bind_rows_sink(source, decl)
    except CqlError as error:
        errors.append(error)
    except CqlErrors as found:
        errors += found.errors
    return None


def _time_clauses(source: Source, decl: StreamDecl, connector: Connector) -> list[CqlError]:
    """Returns what is wrong with clauses that only some connectors can follow."""
    errors: list[CqlError] = []
    spec, name = spec_of(connector.name), decl.name.text
    follows = bool(connector.option("follow", False))
    if decl.idle_us is not None and not spec.has_partitions and not follows:
        partitioned = ", ".join(c.name for c in REGISTRY.all() if c.has_partitions)
        hint = f"leave IDLE out: only {partitioned} and files with follow = true have it"
        errors.append(source.error(decl.name.span, f"stream {name} has no partitions that could be idle", hint))
    if connector.option("order") is not None and not follows:
        hint = "write follow = true, or leave order out: files that are not followed go by name"
        errors.append(source.error(decl.name.span, f"order of stream {name} needs follow = true", hint))
    paced = connector.option("pace") is not None
    if paced and follows:
        hint = "leave one of them out: pace is for recorded files, follow for files that grow"
        errors.append(source.error(decl.name.span, f"stream {name} has both pace and follow", hint))
    if connector.option("pace_from") is not None and not paced:
        errors.append(source.error(decl.name.span, f"pace_from of stream {name} needs pace", "write pace = 1"))
    if decl.shed is not None and (not spec.can_shed or follows or paced):
        hint = "write BUFFER n, which drops the oldest tuples, or a FIRM deadline"
        which = f"files with {'follow' if follows else 'pace'} do" if follows or paced else f"{spec.name} does"
        message = f"SHED needs arrival times that a replay finds again, which {which} not have"
        errors.append(source.error(decl.name.span, message, hint))
    return errors


def bind_schema(source: Source, decl: StreamDecl, errors: list[CqlError]) -> Schema:
    """Returns the columns of a declaration; adds what is wrong with them to `errors`."""
    columns: list[Column] = []
    for column in decl.columns:
        kind = declared_type(column.type.text)
        if kind is None:
            known = [t.value for t in PLAIN_TYPES]
            hint = suggest(column.type.text, known, "types") if column.type.text.isidentifier() else TYPES_HINT
            errors.append(source.error(column.type.span, f"unknown type {column.type.text}", hint))
        elif any(c.name.lower() == column.name.text.lower() for c in columns):
            errors.append(
                source.error(column.name.span, f"column {column.name.text} is declared twice", "give it another name")
            )
        else:
            columns.append(Column(column.name.text, kind))
    return tuple(columns)


def _timestamp(source: Source, decl: StreamDecl, schema: Schema, errors: list[CqlError]) -> int | None:
    if decl.timestamp is None:
        return None
    name = decl.timestamp.text.lower()
    stamps = [c.name for c in schema if c.type is Type.TIMESTAMP]
    for i, column in enumerate(schema):
        if column.name.lower() != name:
            continue
        if column.type is Type.TIMESTAMP:
            return i
        hint = f"write TIMESTAMP BY {stamps[0]}" if stamps else f"declare {column.name} TIMESTAMP"
        errors.append(
            source.error(
                decl.timestamp.span, f"TIMESTAMP BY needs a TIMESTAMP column, {column.name} is {column.type}", hint
            )
        )
        return None
    if all(c.name.text.lower() != name for c in decl.columns):
        hint = suggest(decl.timestamp.text, stamps or [c.name for c in schema], "columns here")
        errors.append(source.error(decl.timestamp.span, f"unknown column {decl.timestamp.text}", hint))
    return None


def _source(source: Source, decl: StreamDecl, schema: Schema, errors: list[CqlError]) -> Connector | None:
    if decl.source is None:
        hint = "write FROM csv (path = '...') or FROM synthetic (rate = 100)"
        errors.append(source.error(decl.name.span, f"stream {decl.name.text} has no FROM", hint))
        return None
    try:
        connector = bind_connector(source, decl.source, tuple(c.name.text for c in decl.columns))
    except CqlError as error:
        errors.append(error)
        return None
    except CqlErrors as found:
        errors += found.errors
        return None
    if spec_of(connector.name).suffixes and decl.timestamp is None:
        stamps = [c.name for c in schema if c.type is Type.TIMESTAMP]
        hint = (
            f"write TIMESTAMP BY {stamps[0]}" if stamps else "declare a TIMESTAMP column and name it with TIMESTAMP BY"
        )
        errors.append(source.error(decl.name.span, f"stream {decl.name.text} reads files and needs TIMESTAMP BY", hint))
    return connector


def _shed(source: Source, name: str, decl: ShedDecl, schema: Schema) -> Shed:
    by = None
    if decl.by is not None:
        scope = Scope(source)
        scope.add(name, Relation(Scan(name, schema), tuple(c.name for c in schema)), name, (0, 1))
        term = resolve(scope, decl.by, clause="SHED")
        by = typed(term, scope.types)
        if calls_python(by.sql):
            hint = "SHED is decided before tuples reach the workers: write an expression without it"
            raise source.error(term.span, "a function of the app cannot be used in SHED", hint)
        if by.type not in (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP) and not by.type.is_decimal:
            message = f"SHED BY needs a value that can be ranked, got {by.type}"
            raise source.error(term.span, message, "write a number, as in BY speed")
    return Shed(decl.above_per_second, by, bind_rows_sink(source, decl.into))

"""Reads a table of PostgreSQL as it is now, in one transaction: `CREATE TABLE ... FROM postgres (...)`.

Columns are taken by name. Cost: all rows pass through this process.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from psycopg import sql

from kigen.connectors.options import OptionError, secret_of
from kigen.connectors.postgres.database import Connection, Database
from kigen.connectors.requests import ReadTable, SourceRequest
from kigen.connectors.source_base import InputError
from kigen.plan.logical import SourceStream

_ROWS = 50_000  # at once


class PostgresTable:
    """Reads one table. A server that is away is waited for."""

    def __init__(self, stream: SourceStream, directory: str) -> None:
        self._stream, self._owner, self._directory = stream, f"table '{stream.name}'", directory
        self._name = str(stream.source.option("table"))

    def __call__(self) -> pa.Table:
        url = secret_of(self._owner, self._stream.source, "url", self._directory)
        if url is None:
            raise OptionError(f"{self._owner}: connector 'postgres' needs url_env or url_file", "url_env")
        database = Database(url, self._owner)
        try:
            return database.run(self._read)
        finally:
            database.close()

    def _read(self, connection: Connection) -> pa.Table:
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in self._stream.schema)
        place = sql.Identifier(*self._name.split("."))
        parts: list[pa.Table] = []
        with connection.cursor("kigen") as cursor:
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, place))
            while rows := cursor.fetchmany(_ROWS):
                parts.append(self._table(rows))
        return pa.concat_tables([self._table([]), *parts]).combine_chunks()

    def _table(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = []
        for place, column in enumerate(self._stream.schema):
            wanted = column.type.arrow
            try:
                columns.append(pa.array([_plain(row[place], wanted) for row in rows], wanted))
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                found = next((type(row[place]).__name__ for row in rows if row[place] is not None), "NULL")
                raise InputError(
                    f"{self._owner}: column {column.name} is {column.type}, PostgreSQL gives {found} ({error}): "
                    "declare another type, or read a view that casts it"
                ) from error
        return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])


def open_table(asked: SourceRequest) -> ReadTable:
    """Returns what reads the table; nothing has to be noted of it."""
    read = PostgresTable(asked.stream, asked.directory)
    return lambda: (read(), {})


def _plain(value: Any, wanted: pa.DataType) -> Any:
    """Returns the value as Arrow takes it."""
    if isinstance(value, Decimal) and pa.types.is_floating(wanted):
        return float(value)
    return str(value) if isinstance(value, UUID) else value

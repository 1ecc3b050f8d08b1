"""Writes `INTO postgres (url_env = ..., table = ...)`: rows are appended, or the table holds what is true now.

Each commit is one transaction, which also advances the number of rows in `kigen_commits`
(kigen.connectors.postgres.tables, kigen.connectors.numbered_sink). It begins by looking at that number, since a
connection may be lost after a commit and before its answer.

With `mode = 'current'` only the last change per key of a commit is sent. A new checkpoint begins with an empty table.
With `append`, rows of earlier runs stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from psycopg import sql

from kigen.connectors.csv.lines import csv_lines
from kigen.connectors.encoding import output_columns, times_of
from kigen.connectors.numbered_sink import NumberedSink
from kigen.connectors.options import OptionError, secret_of
from kigen.connectors.postgres.database import Connection, Database
from kigen.connectors.postgres.tables import Commits, Table
from kigen.connectors.requests import SinkRequest
from kigen.plan.logical import columns_of

_STAGE = sql.Identifier("kigen_stage")


class PostgresSink(NumberedSink):
    commit_interval_us = 100_000

    def __init__(self, asked: SinkRequest) -> None:
        query, connector, schema, is_stream = asked.query, asked.connector, asked.schema, asked.is_stream
        self._key = columns_of(schema, str(connector.option("key", "")))
        super().__init__(f"query '{query}'", schema, is_stream, changes=bool(self._key))
        self._connector, self._query, self._directory = connector, query, asked.directory
        times = () if self._key else times_of(is_stream)
        self._table = Table(str(connector.option("table")), schema, times, self._key, self._owner)
        self._database: Database | None = None
        self._commits: Commits | None = None

    def _open(self, recorded: int) -> int:
        url = secret_of(self._owner, self._connector, "url", self._directory)
        if url is None:
            raise OptionError(f"{self._owner}: connector 'postgres' needs url_env or url_file", "url_env")
        self._database = Database(url, self._owner)
        self._commits = Commits(self.run_name, self._query, self._table.name)
        return self._database.run(lambda connection: self._prepare(connection, recorded))

    def _prepare(self, connection: Connection, recorded: int) -> int:
        """Makes the tables, and returns how many rows of this output the database has."""
        assert self._commits is not None
        self._commits.make(connection)
        self._table.make_or_check(connection)
        stored = self._commits.rows(connection)
        self._require(stored or 0, recorded)
        if stored is not None:
            return stored
        self._commits.start(connection)
        if self._key:
            connection.execute(sql.SQL("DELETE FROM {}").format(self._table.place))
        return 0

    def _store(self, rows: pa.Table, reached: int) -> None:
        assert self._database is not None, "open first"
        self._database.run(lambda connection: self._transact(connection, rows, reached))

    def _transact(self, connection: Connection, rows: pa.Table, reached: int) -> None:
        """Writes the rows and advances the commit. Does nothing if that has happened already: the connection was lost
        before the answer came."""
        assert self._commits is not None
        if self._commits.rows(connection) == reached:
            return
        if not self.syncs:
            connection.execute("SET LOCAL synchronous_commit TO off")
        if self._key:
            self._merge(connection, rows)
        else:
            self._copy(connection, self._table.place, self._table.names, self._lines(rows))
        self._commits.advance(connection, reached)

    def _lines(self, rows: pa.Table) -> Iterator[memoryview]:
        columns = output_columns(rows, self.schema, self.is_stream, self.changes)
        return csv_lines([_hex(c) if pa.types.is_binary(c.type) else c for c in columns])

    @staticmethod
    def _copy(connection: Connection, table: sql.Identifier, names: sql.Composed, lines: Iterator[memoryview]) -> None:
        """Sends lines of CSV. PostgreSQL reads them as we write them: an empty field is NULL, and `""` is empty."""
        with (
            connection.cursor() as cursor,
            cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv)").format(table, names)) as copy,
        ):
            for piece in lines:
                copy.write(piece)

    def _merge(self, connection: Connection, changes: pa.Table) -> None:
        table = self._table
        connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}, _op text, _at timestamp with time zone) ON COMMIT DELETE"
                " ROWS"
            ).format(_STAGE, table.definitions)
        )
        names = sql.SQL("{}, _op, _at").format(table.names)
        self._copy(connection, _STAGE, names, self._lines(last_changes(changes, self._key)))
        same_key = sql.SQL(" AND ").join(
            sql.SQL("target.{0} = stage.{0}").format(sql.Identifier(name)) for name in table.key
        )
        connection.execute(
            sql.SQL("DELETE FROM {} AS target USING {} AS stage WHERE stage._op = 'delete' AND {}").format(
                table.place, _STAGE, same_key
            )
        )
        others = [name for name, _ in table.columns if name not in table.key]
        updates = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
        action = sql.SQL("DO UPDATE SET {}").format(updates) if others else sql.SQL("DO NOTHING")
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE _op = 'insert' ON CONFLICT ({}) {}").format(
                table.place, table.names, table.names, _STAGE, table.key_names, action
            )
        )

    def interrupt(self) -> None:
        if self._database is not None:
            self._database.interrupt()

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


def _hex(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns bytes as PostgreSQL reads them in text."""
    return pa.chunked_array([[None if v is None else rf"\x{v.hex()}" for v in column.to_pylist()]], pa.string())


def last_changes(changes: pa.Table, key: tuple[int, ...]) -> pa.Table:
    """Returns the last change of each key, in order."""
    names = [f"c{k}" for k in key]
    numbered = changes.select(names).append_column("_row", pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by(names).aggregate([("_row", "max")])["_row_max"]
    return changes if len(last) == changes.num_rows else changes.take(np.sort(last.to_numpy()))

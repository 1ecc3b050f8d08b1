"""Makes the tables that results go to, or checks those that exist; and the table of commits, `kigen_commits`.

A row of `kigen_commits` says, per run, output and target, how many rows of the output are in the database. It changes
in the transaction that writes the rows, so it is always right. `run` is the name of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from kigen.connectors.postgres.database import Connection
from kigen.connectors.source_base import InputError
from kigen.plan.types import Schema, Type

_TYPES = {
    "BOOLEAN": "boolean",
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
    "STRING": "text",
    "TIMESTAMP": "timestamp with time zone",
    "DATE": "date",
    "TIME": "time without time zone",
    "UUID": "uuid",
    "BLOB": "bytea",
    "LIST": "jsonb",
    "STRUCT": "jsonb",
}
_TIME = _TYPES["TIMESTAMP"]
_ACCEPTED = {  # types of an existing table that take every value of ours
    "boolean": ("boolean",),
    "bigint": ("bigint", "numeric"),
    "double precision": ("double precision",),
    "text": ("text", "character varying"),
    _TIME: (_TIME, "timestamp without time zone"),
    "date": ("date",),
    "time without time zone": ("time without time zone",),
    "uuid": ("uuid", "text"),
    "bytea": ("bytea",),
    "numeric": ("numeric",),
    "jsonb": ("jsonb", "json", "text"),
}


def _type(kind: Type) -> str:
    return f"numeric({kind.precision}, {kind.scale})" if kind.is_decimal else _TYPES[kind.kind]


class Table:
    """A table of the user's. `times` are our columns after those of the query."""

    def __init__(self, name: str, schema: Schema, times: Sequence[str], key: Sequence[int], owner: str) -> None:
        self.name, self._owner = name, owner
        self.place = sql.Identifier(*name.split("."))
        self.columns = [(column.name, _type(column.type)) for column in schema] + [(time, _TIME) for time in times]
        self.key = [schema[k].name for k in key]

    @property
    def names(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(name) for name, _ in self.columns)

    @property
    def key_names(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(name) for name in self.key)

    @property
    def definitions(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.SQL("{} " + kind).format(sql.Identifier(name)) for name, kind in self.columns)

    def make_or_check(self, connection: Connection) -> None:
        """Creates the table if it does not exist. Raises InputError if an existing one does not fit."""
        found = connection.execute("SELECT to_regclass(%s)::oid", (self.place.as_string(),)).fetchone()
        assert found is not None
        if found[0] is None:
            keyed = sql.SQL(", PRIMARY KEY ({})").format(self.key_names) if self.key else sql.SQL("")
            connection.execute(sql.SQL("CREATE TABLE {} ({}{})").format(self.place, self.definitions, keyed))
            return
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT"
            " attisdropped",
            found,
        ).fetchall()
        kinds = {str(name): str(kind) for name, kind in rows}
        for name, kind in self.columns:
            if kinds.get(name) not in _ACCEPTED[kind.partition("(")[0]]:
                there = f"it is {kinds[name]}" if name in kinds else f"there are: {', '.join(kinds)}"
                todo = "alter the table, or name one that does not exist: Kigen creates it"
                raise InputError(f"{self._owner}: table {self.name} needs column {name} {kind}; {there}: {todo}")
        if self.key and not self._has_key(connection, int(found[0])):
            listed = ", ".join(self.key)
            raise InputError(
                f"{self._owner}: table {self.name} needs a primary key or a unique index on exactly ({listed}): run "
                f"ALTER TABLE {self.name} ADD PRIMARY KEY ({listed})"
            )

    def _has_key(self, connection: Connection, table: int) -> bool:
        rows = connection.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND"
            " a.attnum = ANY(i.indkey) WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS"
            " NULL GROUP BY i.indexrelid",
            (table,),
        ).fetchall()
        return any(set(names) == set(self.key) for (names,) in rows)


class Commits:
    """The row of one output in `kigen_commits`."""

    def __init__(self, run: str, output: str, table: str) -> None:
        self._key = (run, output, table)

    @staticmethod
    def make(connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('kigen_commits'))")  # two outputs may make it at once
        connection.execute(
            "CREATE TABLE IF NOT EXISTS kigen_commits (run text, output text, target text, commits bigint NOT NULL,"
            " rows bigint NOT NULL, at timestamp with time zone NOT NULL DEFAULT now(), PRIMARY KEY (run, output,"
            " target))"
        )

    def rows(self, connection: Connection) -> int | None:
        """Returns how many rows of the output are in the database; None if the output has no row yet."""
        found = connection.execute(
            "SELECT rows FROM kigen_commits WHERE run = %s AND output = %s AND target = %s FOR UPDATE", self._key
        ).fetchone()
        return None if found is None else int(found[0])

    def start(self, connection: Connection) -> None:
        """Adds the row of an output that is new."""
        connection.execute(
            "INSERT INTO kigen_commits (run, output, target, commits, rows) VALUES (%s, %s, %s, 0, 0)",
            self._key,
        )

    def advance(self, connection: Connection, rows: int) -> None:
        connection.execute(
            "UPDATE kigen_commits SET commits = commits + 1, rows = %s, at = now() WHERE run = %s AND output = %s AND"
            " target = %s",
            (rows, *self._key),
        )

"""Asks DuckDB about expressions: the type of an expression, its column name, or where it is wrong.

Invariant: no data is touched. Expressions are bound against empty tables of the columns' types, and evaluated on one
row of NULLs. Cost: about a millisecond per expression.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from functools import lru_cache

import duckdb

from kigen.plan.binder.expressions.functions import NotAllowed, check_columns, check_functions
from kigen.plan.expressions.locked_duckdb import TOO_LONG, connect
from kigen.plan.types import Type

Types = tuple[Type, ...]


@dataclass(frozen=True)
class Bound:
    label: str  # the column name that DuckDB chooses
    type: str  # DuckDB's type


class DuckError(Exception):
    """An expression was refused, by DuckDB or (with a hint) by Kigen. `start` and `length` are a place in the text that
    `describe` was given; `start` is None if there is no place."""

    def __init__(self, message: str, start: int | None, length: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.length, self.hint = message, start, length, hint


_TRY = "SELECT "


class _Connection:
    """One in-memory connection per process, used under a lock: apps are bound rarely and quickly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection = connect(errors_as_json="true")
        self.tables: dict[Types, str] = {}

    def table(self, types: Types) -> str:
        if types not in self.tables:
            name = f"kigen_types_{len(self.tables)}"
            columns = ", ".join(f"c{i} {t.duckdb}" for i, t in enumerate(types)) or "kigen_none BOOLEAN"
            self.connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
            self.tables[types] = name
        return self.tables[types]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.connection.execute(sql).fetchall()]


@lru_cache(maxsize=1)
def _connection() -> _Connection:
    return _Connection()


@lru_cache(maxsize=4096)
def describe(sql: str, types: Types) -> Bound:
    """Binds one expression over columns c0, c1, ... of the given types."""
    duck = _connection()
    with duck.lock:
        try:
            # First, because DuckDB evaluates constants while it binds.
            check_functions(duck.rows, sql, functions().keys())
            bound = _describe(duck, sql, duck.table(types))
            check_columns(duck.rows, sql)
        except NotAllowed as error:
            raise DuckError(error.message, error.start, len(error.name), error.hint) from error
        _try_constants(duck, sql, types)
        return bound


@lru_cache(maxsize=4096)
def label(sql: str, tables: tuple[tuple[str, tuple[tuple[str, Type], ...]], ...]) -> str | None:
    """Returns the column name that DuckDB gives this select item over tables of these names, columns and types; None if
    DuckDB cannot bind it."""
    duck = _connection()
    sources = []
    for alias, columns in tables:
        fields = ", ".join(f"NULL::{t.duckdb} AS {_quote(name)}" for name, t in columns)
        sources.append(f"(SELECT {fields}) AS {_quote(alias)}")
    try:
        with duck.lock:
            return _describe(duck, sql, ", ".join(sources)).label
    except DuckError:
        return None


def _describe(duck: _Connection, sql: str, source: str) -> Bound:
    prefix = "DESCRIBE SELECT "
    try:
        rows = duck.rows(f"{prefix}{sql} FROM {source}")
    except duckdb.Error as error:
        raise _duck_error(error, prefix, sql) from error
    if len(rows) != 1:
        raise DuckError("an expression must return one column", None, len(sql))
    return Bound(str(rows[0][0]), str(rows[0][1]))


def _try_constants(duck: _Connection, sql: str, types: Types) -> None:
    """Evaluates the expression over one row of NULLs: a constant that cannot be converted there (`ts > 'nonsense'`) is
    wrong for every row."""
    if "'" not in sql:
        return
    values = ", ".join(f"NULL::{t.duckdb}" for t in types) or "NULL"
    names = ", ".join(f"c{i}" for i in range(max(1, len(types))))
    try:
        duck.rows(f"{_TRY}{sql} FROM (VALUES ({values})) kigen_nulls({names})")
    except duckdb.ConversionException as error:
        found = _duck_error(error, _TRY, sql)
        if found.start is not None and not re.search(r"\bc\d+\b", sql[found.start : found.start + found.length]):
            raise found from error
    except duckdb.Error as error:
        if TOO_LONG in str(error):
            raise DuckError(_duck_error(error, _TRY, sql).message, None, len(sql), "make it shorter") from error
        # not only about constants: real rows decide


def _duck_error(error: duckdb.Error, prefix: str, sql: str) -> DuckError:
    """Converts an error: DuckDB's places count bytes of the whole statement, ours count characters of the
    expression."""
    text = str(error)
    try:
        data = json.loads(text[text.index("{") :])
    except ValueError:
        return DuckError(text.split("\n", 1)[0], None, len(sql))
    message = str(data.get("exception_message", text))
    place = re.match(r"\[(\d+),\s*(\d+)\]", str(data.get("location", "")))
    if place is None:
        return DuckError(message, None, len(sql))
    encoded, first, length = (prefix + sql).encode(), int(place[1]), int(place[2])
    start = len(encoded[:first].decode(errors="ignore")) - len(prefix)
    width = len(encoded[first : first + length].decode(errors="ignore"))
    return DuckError(message, start if 0 <= start < len(sql) else None, width)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=1)
def functions() -> dict[str, frozenset[str]]:
    """Returns every function that DuckDB knows, in lower case, with its kinds: scalar, macro, aggregate, window, table,
    and `volatile`."""
    duck = _connection()
    with duck.lock:
        rows = duck.rows(
            "SELECT lower(function_name), function_type, coalesce(stability, 'CONSISTENT') FROM duckdb_functions()"
        )
    found: dict[str, set[str]] = {}
    for name, kind, stability in rows:
        kinds = found.setdefault(str(name), set())
        kinds.add(str(kind))
        if stability != "CONSISTENT":
            kinds.add("volatile")
    found.setdefault("ago", set()).add("volatile")
    return {name: frozenset(kinds) for name, kinds in found.items()}


def is_exact(sql: str, types: Types) -> bool:
    """Returns whether the value keeps its exact value and order as one of the five types; a DECIMAL as a DOUBLE does
    not."""
    bound = describe(sql, types).type
    return not kigen_type(bound)[1] or bound in _INTEGERS


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"})
_WIDE = frozenset({"HUGEINT", "UHUGEINT", "UBIGINT", "FLOAT"})
_STAMPS = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE"})


def kigen_type(duck: str) -> tuple[Type | None, bool]:
    """Returns which of the five types a DuckDB type becomes (None if there is none), and whether that takes a CAST."""
    plain = {
        "BOOLEAN": Type.BOOLEAN,
        "BIGINT": Type.BIGINT,
        "DOUBLE": Type.DOUBLE,
        "VARCHAR": Type.STRING,
        "TIMESTAMP": Type.TIMESTAMP,
    }
    if duck in plain:
        return plain[duck], False
    if duck in _INTEGERS or duck == '"NULL"':
        return Type.BIGINT, True
    if duck in _WIDE or duck.startswith("DECIMAL"):
        return Type.DOUBLE, True
    if duck in _STAMPS:
        return Type.TIMESTAMP, True
    return None, False

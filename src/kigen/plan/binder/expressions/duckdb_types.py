"""DuckDB as the judge of expressions: what type an expression has, how DuckDB names it, or where it is wrong.

Invariant: no data is touched; expressions are bound against empty tables of the columns' types, and tried on one row of
NULLs. About a millisecond each.
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
    label: str  # the name DuckDB gives the column
    type: str  # DuckDB's type


class DuckError(Exception):
    """A refusal, DuckDB's or (with a hint) our own; `start` and `length` are in the text that was given to `describe`,
    None if there is no place."""

    def __init__(self, message: str, start: int | None, length: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.length, self.hint = message, start, length, hint


_TRY = "SELECT "


class _Judge:
    """One in-memory connection a process, used under a lock: apps are bound rarely and quickly."""

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
def _judge() -> _Judge:
    return _Judge()


@lru_cache(maxsize=4096)
def describe(sql: str, types: Types) -> Bound:
    """Bind one expression over columns c0, c1, ... of the given types."""
    judge = _judge()
    with judge.lock:
        try:
            check_functions(judge.rows, sql, functions().keys())  # first: DuckDB evaluates constants while it binds
            bound = _describe(judge, sql, judge.table(types))
            check_columns(judge.rows, sql)
        except NotAllowed as error:
            raise DuckError(error.message, error.start, len(error.name), error.hint) from error
        _try_constants(judge, sql, types)
        return bound


@lru_cache(maxsize=4096)
def label(sql: str, tables: tuple[tuple[str, tuple[tuple[str, Type], ...]], ...]) -> str | None:
    """What DuckDB would call this select item over tables of these names, columns and types; None if it will not
    say."""
    judge = _judge()
    sources = []
    for alias, columns in tables:
        fields = ", ".join(f"NULL::{t.duckdb} AS {_quote(name)}" for name, t in columns)
        sources.append(f"(SELECT {fields}) AS {_quote(alias)}")
    try:
        with judge.lock:
            return _describe(judge, sql, ", ".join(sources)).label
    except DuckError:
        return None


def _describe(judge: _Judge, sql: str, source: str) -> Bound:
    prefix = "DESCRIBE SELECT "
    try:
        rows = judge.rows(f"{prefix}{sql} FROM {source}")
    except duckdb.Error as error:
        raise _duck_error(error, prefix, sql) from error
    if len(rows) != 1:
        raise DuckError("an expression must give one column", None, len(sql))
    return Bound(str(rows[0][0]), str(rows[0][1]))


def _try_constants(judge: _Judge, sql: str, types: Types) -> None:
    """Evaluate over one row of NULLs: a constant that cannot be converted there (`ts > 'nonsense'`) is wrong for every
    row."""
    if "'" not in sql:
        return
    values = ", ".join(f"NULL::{t.duckdb}" for t in types) or "NULL"
    names = ", ".join(f"c{i}" for i in range(max(1, len(types))))
    try:
        judge.rows(f"{_TRY}{sql} FROM (VALUES ({values})) kigen_nulls({names})")
    except duckdb.ConversionException as error:
        found = _duck_error(error, _TRY, sql)
        if found.start is not None and not re.search(r"\bc\d+\b", sql[found.start : found.start + found.length]):
            raise found from error
    except duckdb.Error as error:
        if TOO_LONG in str(error):
            raise DuckError(_duck_error(error, _TRY, sql).message, None, len(sql), "make it shorter") from error
        # not about constants alone; the rows will tell


def _duck_error(error: duckdb.Error, prefix: str, sql: str) -> DuckError:
    """DuckDB's places count bytes of the whole statement; ours count characters of the expression."""
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
    """Every function DuckDB knows, lower-case, with its kinds: scalar, macro, aggregate, window, table, and
    `volatile`."""
    judge = _judge()
    with judge.lock:
        rows = judge.rows(
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
    """Whether the value keeps its exact size and order as one of the five types: a DECIMAL loses digits as a DOUBLE."""
    bound = describe(sql, types).type
    return not kigen_type(bound)[1] or bound in _INTEGERS


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"})
_WIDE = frozenset({"HUGEINT", "UHUGEINT", "UBIGINT", "FLOAT"})
_STAMPS = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE"})


def kigen_type(duck: str) -> tuple[Type | None, bool]:
    """The one of the five types a DuckDB type becomes, and whether that takes a CAST; None if there is none."""
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

"""Asks DuckDB about expressions: the type of an expression, its column name, or where it is wrong.

Invariant: no data is touched. Expressions are bound against empty tables of the columns' types, and evaluated on one
row of NULLs. Cost: about a millisecond per expression.
"""

from __future__ import annotations

import atexit
import json
import re
import threading
from dataclasses import dataclass
from functools import lru_cache

import duckdb

from kigen.plan.binder.expressions.functions import NotAllowed, check_columns, check_functions
from kigen.plan.expressions.columns import columns_of, with_columns_replaced
from kigen.plan.expressions.locked_duckdb import TOO_LONG, connect
from kigen.plan.logical import Function, calls_python
from kigen.plan.type_texts import duckdb_type, is_type
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
        self.declared: set[str] = set()  # functions of apps

    def table(self, types: Types) -> str:
        if types not in self.tables:
            name = f"kigen_types_{len(self.tables)}"
            columns = ", ".join(f"c{i} {t.duckdb}" for i, t in enumerate(types)) or "kigen_none BOOLEAN"
            self.connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
            self.tables[types] = name
        return self.tables[types]

    def declare(self, function: Function) -> None:
        """Makes the types of a function known. Nothing calls it: it has no code here, and is no constant."""
        if function.call in self.declared:
            return
        self.declared.add(function.call)
        kinds = [kind.duckdb for kind in function.parameters]

        def no_code(*arguments: object) -> object:
            raise NotImplementedError("functions run in workers only")

        no_code.__signature__ = function.signature  # type: ignore[attr-defined]
        atexit.register(self.connection.close)  # otherwise DuckDB reports leaks when the process ends
        self.connection.create_function(
            function.call,
            no_code,
            kinds,
            function.returns.duckdb,
            type="arrow",
            side_effects=True,
        )

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.connection.execute(sql).fetchall()]


@lru_cache(maxsize=1)
def _connection() -> _Connection:
    return _Connection()


def declare(function: Function) -> None:
    """Makes a function of an app known, so that expressions that call it can be bound."""
    duck = _connection()
    with duck.lock:
        duck.declare(function)


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
        if calls_python(str(name)):
            continue
        kinds = found.setdefault(str(name), set())
        kinds.add(str(kind))
        if stability != "CONSISTENT":
            kinds.add("volatile")
    found.setdefault("ago", set()).add("volatile")
    return {name: frozenset(kinds) for name, kinds in found.items()}


def column_type(sql: str, types: Types) -> tuple[Type | None, bool]:
    """Returns the type that the expression has as a column (None if it cannot be one), and whether that takes a CAST.

    A DECIMAL stays exact if a DECIMAL column or the word DECIMAL takes part. A number with a point is a DECIMAL for
    DuckDB, too; by itself it makes a DOUBLE.
    """
    bound = describe(sql, types).type
    exact = _DECIMAL.search(sql) is not None or any(types[c].holds("DECIMAL") for c in columns_of(sql))
    kind = duckdb_type(bound, exact)
    return kind, kind is not None and not is_type(bound, kind)


def common_type(left: Type, right: Type) -> Type | None:
    """Returns the type in which DuckDB compares two types; None if the types are too different."""
    if left is right:
        return left
    kinds = {left.kind, right.kind}
    if not (kinds <= _NUMBERS or kinds <= _DAYS):
        return None
    return duckdb_type(describe("coalesce(c0, c1)", (left, right)).type, exact=True)


def is_exact(sql: str, types: Types) -> bool:
    """Returns whether the value keeps its exact value and order as a column; a DECIMAL as a DOUBLE does not."""
    _, cast = column_type(sql, types)
    return not cast or describe(sql, types).type in _INTEGERS


def held(sql: str, types: Types) -> str:
    """Returns the expression over columns as blocks hold them: a UUID is text there."""
    if not any(t.holds("UUID") for t in types):
        return sql
    return with_columns_replaced(
        sql, lambda c: f"CAST(c{c} AS {types[c].duckdb})" if types[c].holds("UUID") else f"c{c}"
    )


_DECIMAL = re.compile(r"""\b(decimal|numeric)\b(?=[^']*(?:'[^']*'[^']*)*$)""", re.IGNORECASE)
_NUMBERS = frozenset({"BIGINT", "DOUBLE", "DECIMAL"})
_DAYS = frozenset({"DATE", "TIMESTAMP"})
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"})

"""Connects to DuckDB as Kigen uses it, on the driver and in workers: it computes, and cannot reach anything outside.

It has no files, no network and only built-in extensions; times are in UTC, and the settings cannot be changed back.
Functions that can produce a huge value from a small one are behind macros of the same name that refuse to, because
DuckDB's own memory limit does not count the strings that they make. Invariant: equal expressions over equal rows give
equal results in every connection made here. Cost: 10 ms per connection.
"""

from __future__ import annotations

import duckdb

MADE_BYTES = 1 << 20  # longest string that repeat, lpad or rpad may make
REPLACED_BYTES = 64 << 20  # longest string that replacing may make
TOO_LONG = "would make a text of more than"
_LOCKED = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
}


def connect(**more: str) -> duckdb.DuckDBPyConnection:
    """Returns a new connection, in memory. `more` are further settings, which cannot be changed later."""
    connection = duckdb.connect(":memory:", config={**_LOCKED, **more})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET Calendar = 'gregorian'")
    for macro in _MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    connection.execute("SET lock_configuration = true")
    return connection


def _bounded(name: str, arguments: str, size: str, limit: int, least: str = "0") -> str:
    message = f"{name} {TOO_LONG} {limit:,} bytes"
    refuse = f"WHEN {size} > greatest({limit}, {least}) THEN error('{message}')"
    return f"{arguments} AS CASE {refuse} ELSE system.main.{name}{arguments} END"


_GROWN = "strlen(s)::HUGEINT + strlen(s)::HUGEINT * strlen(r)"
_REPLACED = "strlen(s)::HUGEINT + (strlen(s)::HUGEINT // greatest(1, strlen(f))) * greatest(0, strlen(r) - strlen(f))"
_MACROS = (
    "repeat" + _bounded("repeat", "(s, n)", "strlen(s)::HUGEINT * n", MADE_BYTES),
    "lpad" + _bounded("lpad", "(s, n, c)", "n", MADE_BYTES, "strlen(s)"),
    "rpad" + _bounded("rpad", "(s, n, c)", "n", MADE_BYTES, "strlen(s)"),
    "replace" + _bounded("replace", "(s, f, r)", _REPLACED, REPLACED_BYTES, "strlen(s)"),
    "regexp_replace"
    + _bounded("regexp_replace", "(s, p, r)", _GROWN, REPLACED_BYTES)
    + ", "
    + _bounded("regexp_replace", "(s, p, r, o)", _GROWN, REPLACED_BYTES),
)

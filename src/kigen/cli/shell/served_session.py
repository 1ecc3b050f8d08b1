"""A session over a running app: `kigen shell http://HOST:PORT`. Queries read the relations of the app as they are now.

The app gives its relations as JSON (docs/reference/http.md), and a locked DuckDB in this process answers. The app
itself is not changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from kigen.cli.changes.served_app import ServedApp
from kigen.engine.errors import ArgumentError
from kigen.language.grammar.recognizer import words_of
from kigen.plan.expressions.locked_duckdb import connect
from kigen.testing import Row


class ServedSession:
    """Asks one app. `token` is the file that holds the token of the app."""

    def __init__(self, address: str, token: Path | None) -> None:
        self._app = ServedApp(address, token)
        self._queries: dict[str, list[str]] = {}
        self.names()

    def names(self) -> list[str]:
        """Returns the names of queries and of their columns."""
        found = self._app.get("/queries")
        listed = found["queries"] if isinstance(found, dict) else found
        self._queries = {one["query"] if "query" in one else one["name"]: list(one["columns"]) for one in listed}
        return sorted({*self._queries, *(c for columns in self._queries.values() for c in columns)})

    def described(self) -> list[str]:
        self.names()
        return [f"query {name} ({', '.join(columns)})" for name, columns in self._queries.items()]

    def enter(self, statement: str) -> list[Row] | str:
        words = words_of(statement)
        if words and words[0][0].upper() in ("CREATE", "INCLUDE"):
            raise ArgumentError("the shell does not change a running app: use kigen add, kigen drop or kigen change")
        body = statement.rstrip().removesuffix(";").strip()
        named = {name.lower(): name for name in self._queries}
        body = f'SELECT * FROM "{named[body.lower()]}"' if body.lower() in named else body
        used = {named[text.lower()] for text, _ in words_of(body) if text.lower() in named}
        with connect() as duck:
            for name in used:
                duck.register(name, self._relation(name))
            try:
                return duck.sql(body).to_arrow_table().to_pylist()  # type: ignore[no-any-return]
            except Exception as error:
                raise ArgumentError(f"{error}; queries of this app: {', '.join(self._queries)}") from error

    def _relation(self, name: str) -> pa.Table:
        given = self._app.get(f"/queries/{quote(name)}")
        columns = given["columns"]
        rows: list[dict[str, Any]] = given["rows"]
        return pa.table({c: pa.array([row.get(c) for row in rows]) for c in columns})

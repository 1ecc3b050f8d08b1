"""A session over an app file: statements add to the app, queries run over what its sources hold.

A query runs in the kernel that a run on Spark uses, as `--drain` would run it, without Spark. The file itself is only
written by `.save`. Cost: a query reads its sources again, up to a limit of rows per stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from kigen.connectors import open_source
from kigen.engine.apps import read_app
from kigen.engine.errors import ArgumentError
from kigen.language.expansion import Value
from kigen.language.grammar.recognizer import words_of
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan.logical import App, SourceStream
from kigen.plan.tasks import extract_tasks
from kigen.testing import Row, result_rows

MOST_ROWS = 1_000_000  # of one stream
ASKED = "_asked"  # name of the query that a user types
_PIECE = 100_000


class AppSession:
    """The statements of a file, and those that were typed."""

    def __init__(self, file: Path | None, params: Mapping[str, Value] | None = None) -> None:
        self._base = Path.cwd() if file is None else file.absolute().parent
        self.text = "" if file is None else file.read_text(encoding="utf-8")
        self._params = dict(params or {})
        if self.text.strip():
            self._app()

    def _app(self, more: str = "") -> App:
        text = f"{self.text.rstrip()}\n{more}"
        return read_app(text=text, base=self._base, params=self._params)

    def names(self) -> list[str]:
        """Returns the names of streams, tables and queries, and of their columns."""
        if not self.text.strip():
            return []
        app = self._app()
        schemas = {s.name: s.schema for s in app.streams} | {q.name: q.schema for q in app.queries}
        return sorted({*schemas, *(column.name for schema in schemas.values() for column in schema)})

    def described(self) -> list[str]:
        """Returns a line per stream, table and query."""
        if not self.text.strip():
            return []
        app = self._app()
        kinds = [(thing, "table" if thing.table else "stream") for thing in app.streams]
        lines = [f"{kind} {s.name} ({', '.join(f'{c.name} {c.type}' for c in s.schema)})" for s, kind in kinds]
        return lines + [f"query {q.name} ({', '.join(f'{c.name} {c.type}' for c in q.schema)})" for q in app.queries]

    def enter(self, statement: str) -> list[Row] | str:
        """Takes one statement: returns the lines of a query, or what a declaration has done."""
        words = [text.upper() for text, _ in words_of(statement)[:3]]
        if words[:1] in (["CREATE"], ["INCLUDE"]):
            added = f"{statement.rstrip().removesuffix(';')};\n"
            if words[1:2] in (["QUERY"], ["VIEW"]):
                self._app(added)  # a stream alone is no app yet: it is checked with the first query
            self.text = f"{self.text.rstrip()}\n{added}".lstrip()
            return f"added: {' '.join(statement.split()[:3]).rstrip(';')}"
        body = statement.rstrip().removesuffix(";")
        known = {q.name.lower(): q.name for q in self._app().queries} if self.text.strip() else {}
        if body.strip().lower() in known:  # a query by its name
            return self._lines(self._app(), known[body.strip().lower()])
        return self._lines(self._app(f"CREATE QUERY {ASKED} AS {body};"), ASKED)

    def _lines(self, app: App, name: str) -> list[Row]:
        whole = replace(app, queries=tuple(replace(q, into=None, also=()) for q in app.queries))
        query = next(q for q in whole.queries if q.name == name)
        task = next(t for t in extract_tasks(whole) if name in {q.name for q in t.queries})
        runtime = TaskRuntime(task, whole, "dt")
        streams = {s.name: s for s in whole.streams}
        inputs = {s: StreamInput(self._rows(streams[s], whole.directory), ended=True) for s in task.streams}
        found = runtime.step(inputs).outputs.get(name)
        rows = [] if found is None else result_rows(query, found)
        return sorted(rows, key=lambda row: (row.get("_from", row.get("_at")), repr(row)))

    def _rows(self, stream: SourceStream, directory: str) -> list[pa.Table]:
        if stream.table and stream.source.name == "spark":
            raise ArgumentError(f"table '{stream.name}' is read by Spark, which the shell does not start: use run")
        source = open_source(stream, directory, True, None, None)
        position, found, total = source.initial(), list[pa.Table](), 0
        while total < MOST_ROWS:
            piece = source.advance(position, _PIECE)
            if piece.rows:
                table = source.read(piece).table
                found.append(table)
                total += table.num_rows
            if piece.ended or piece.end == position:
                break
            position = piece.end
        return found

"""Unit tests of apps: rows in, lifetimes out, in virtual time, without Spark.

The app runs in the kernel that a run on Spark uses, so its answers are the same. Connectors are not opened: the test
gives the rows of each stream and table itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.connectors.values.entries import Misfit, value_of
from kigen.engine.apps import read_app
from kigen.engine.errors import ArgumentError
from kigen.language.errors import suggest
from kigen.language.expansion import Value
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.plan.logical import App, Query, SourceStream
from kigen.plan.tasks import extract_tasks
from kigen.plan.types import Column, Type

Row = dict[str, Any]
Time = datetime | str | int  # a str is ISO-8601, an int is microseconds since the Unix epoch
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AS_GIVEN = (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP)


class AppTest:
    """Runs an app on rows that a test gives.

    Args:
        app: Path of the app file.
        text: The app itself, instead of a file.
        base: Directory of the files that `text` includes. Default: the current directory.
        params: Values of the app's parameters (`$name`), by name.
        lifetime: "dt" or "nt", as in `Engine.run`.

    >>> import kigen.testing
    >>> test = kigen.testing.AppTest(text='''
    ... CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'unused.csv');
    ... CREATE QUERY hot AS SELECT room, MAX(temp) AS top FROM readings [RANGE 10 SECONDS] GROUP BY room;
    ... ''')
    >>> test.push("readings", [
    ...     {"room": "kitchen", "temp": 20.0, "ts": "2026-01-01T00:00:00Z"},
    ...     {"room": "kitchen", "temp": 24.0, "ts": "2026-01-01T00:00:08Z"},
    ... ])
    >>> test.at("hot", "2026-01-01T00:00:09Z")
    [{'room': 'kitchen', 'top': 24.0}]
    >>> test.finish()
    >>> [(row["top"], row["_from"].second, row["_to"] and row["_to"].second) for row in test.lines("hot")]
    [(20.0, 0, 8), (24.0, 8, None)]
    """

    def __init__(
        self,
        app: str | Path | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
        lifetime: str = "dt",
    ) -> None:
        read = read_app(app, text=text, base=base, params=params)
        # What INTO takes does not matter here: lines have lifetimes.
        self._lifetime = lifetime
        self._app: App = replace(read, queries=tuple(replace(q, into=None, also=()) for q in read.queries))
        self._streams = {stream.name.lower(): stream for stream in self._app.streams}
        self._queries = {query.name.lower(): query for query in self._app.queries}
        self._tasks = [(task, TaskRuntime(task, self._app, lifetime)) for task in extract_tasks(self._app)]
        self._rows: dict[str, list[tuple[int, Row]]] = {stream.name: [] for stream in self._app.streams}
        self._lines: dict[str, list[Row]] = {query.name: [] for query in self._app.queries}
        self._late: dict[str, int] = dict.fromkeys(self._lines, 0)
        self._finished = False

    def push(self, stream: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> None:
        """Gives rows of a stream or table: dicts by column, or values in the order of the columns.

        A row of a stream without TIMESTAMP BY has its time in `_at`. Times are datetimes, ISO-8601 texts, or
        microseconds since the Unix epoch.
        """
        if self._finished:
            raise ArgumentError("the streams have ended: push before finish, or make another AppTest")
        declared = _named(self._streams, stream, "streams")
        self._rows[declared.name] += [_row(declared, row) for row in rows]

    def advance(self, to: Time) -> None:
        """Processes the rows that were pushed, and lets time pass to an instant: nothing before it can arrive later."""
        self._step(_microseconds(to), ended=False)

    def finish(self) -> None:
        """Ends all streams: processes the rows that were pushed, up to the last timestamp, as `--drain` does."""
        if not self._finished:
            self._step(None, ended=True)
            self._finished = True

    def lines(self, query: str) -> list[Row]:
        """Returns the lines of a query so far, ordered by time: its columns, and `_from` and `_to`, or `_at`.

        A line of a relation appears when its death is known, or at the end; `_to` is None if it is not known then.
        """
        found = self._lines[_named(self._queries, query, "queries").name]
        return sorted(found, key=lambda row: (row.get("_from", row.get("_at")), repr(row)))

    def at(self, query: str, instant: Time) -> list[Row]:
        """Returns the rows of a relation that are alive at an instant. Rows that were pushed are processed first, in an
        AppTest of their own, so that more may follow."""
        wanted = _named(self._queries, query, "queries")
        if wanted.root.is_stream:
            raise ArgumentError(f"{wanted.name} is a stream, which has no rows at an instant: use lines")
        copy = self._copied()
        copy.finish()
        when = _moment(_microseconds(instant))
        alive = [r for r in copy.lines(query) if r["_from"] <= when and (r["_to"] is None or when < r["_to"])]
        return [{k: v for k, v in row.items() if k not in ("_from", "_to")} for row in alive]

    def late(self, query: str) -> int:
        """Returns how many tuples of the query's streams came too late."""
        return self._late[_named(self._queries, query, "queries").name]

    # --- steps ----------------------------------------------------------------------------------------------------

    def _copied(self) -> AppTest:
        copy = object.__new__(AppTest)
        copy.__dict__ |= self.__dict__
        copy._tasks = []
        for task, runtime in self._tasks:
            twin = TaskRuntime(task, self._app, self._lifetime)
            twin.restore(runtime.snapshot())
            copy._tasks.append((task, twin))
        copy._rows = {name: list(rows) for name, rows in self._rows.items()}
        copy._lines = {name: list(lines) for name, lines in self._lines.items()}
        copy._late = dict(self._late)
        return copy

    def _step(self, progress: int | None, ended: bool) -> None:
        given = {name: _table(self._streams[name.lower()], rows) for name, rows in self._rows.items()}
        self._rows = {name: [] for name in self._rows}
        for task, runtime in self._tasks:
            inputs = {}
            for name in task.streams:
                over = ended or self._streams[name.lower()].table
                inputs[name] = StreamInput([given[name]] if len(given[name]) else [], None if over else progress, over)
            result = runtime.step(inputs)
            for name, counts in result.counts.items():
                self._late[name] += counts["late"]
            for name, table in result.outputs.items():
                self._lines[name] += result_rows(self._queries[name.lower()], table)


def lifetimes(
    app: str | Path | None = None,
    *,
    rows: Mapping[str, Iterable[Mapping[str, Any] | Sequence[Any]]],
    text: str | None = None,
    base: str | Path | None = None,
    params: Mapping[str, Value] | None = None,
    lifetime: str = "dt",
) -> dict[str, list[Row]]:
    """Returns the lines of all queries of an app over these rows, by query. The arguments are those of `AppTest`;
    `rows` are the rows of each stream."""
    test = AppTest(app, text=text, base=base, params=params, lifetime=lifetime)
    for stream, given in rows.items():
        test.push(stream, given)
    test.finish()
    return {name: test.lines(name) for name in test._lines}


def _named(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name.lower() not in known:
        hint = suggest(name, [thing.name for thing in known.values()], what)
        raise ArgumentError(f"the app has no {name}; {hint}")
    return known[name.lower()]


def _microseconds(time: Time) -> int:
    if isinstance(time, int):
        return time
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _row(stream: SourceStream, given: Mapping[str, Any] | Sequence[Any]) -> tuple[int, Row]:
    names = [column.name for column in stream.schema]
    if not isinstance(given, Mapping):
        if len(given) != len(names):
            raise ArgumentError(f"a row of {stream.name} has {len(names)} columns ({', '.join(names)}), got {given!r}")
        given = dict(zip(names, given, strict=True))
    unknown = [name for name in given if name not in (*names, "_at")]
    if unknown:
        hint = suggest(unknown[0], names, "columns here")
        raise ArgumentError(f"{stream.name} has no column {unknown[0]}; {hint}")
    row = {name: given.get(name) for name in names}
    for column in stream.schema:
        value = row[column.name]
        if column.type is Type.TIMESTAMP and value is not None:
            row[column.name] = _microseconds(value)
        elif column.type not in _AS_GIVEN:
            row[column.name] = _value(stream, column, value)
    if stream.table:
        return FIRST_US, row
    at = given.get("_at") if stream.timestamp is None else row[names[stream.timestamp]]
    if at is None:
        where = "_at" if stream.timestamp is None else names[stream.timestamp]
        raise ArgumentError(f"a row of {stream.name} needs its time in {where}, got {dict(given)!r}")
    return _microseconds(at), row


def _value(stream: SourceStream, column: Column, value: Any) -> Any:
    try:
        return value_of(value, column.type)
    except Misfit as error:
        raise ArgumentError(f"column {column.name} of {stream.name} is {column.type}, got {error}") from error


def _table(stream: SourceStream, rows: list[tuple[int, Row]]) -> pa.Table:
    columns = {}
    for number, column in enumerate(stream.schema):
        values = [row[column.name] for _, row in rows]
        try:
            columns[f"c{number}"] = pa.array(values, column.type.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ArgumentError(f"column {column.name} of {stream.name} is {column.type}: {error}") from error
    return pa.table(columns | {"_ts": pa.array([at for at, _ in rows], pa.int64())})


def result_rows(query: Query, table: pa.Table) -> list[Row]:
    """Returns what the kernel gives for a query as dicts: its columns, and `_from` and `_to`, or `_at`."""
    names = [column.name for column in query.schema]
    values = [table.column(f"c{i}") for i in range(len(names))]
    plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in values]
    moments = [pa.types.is_timestamp(c.type) for c in values]
    times = [name for name in ("_from", "_to", "_at") if name in table.column_names]
    columns = [column.to_pylist() for column in (*plain, *(table.column(name) for name in times))]
    is_time = [*moments, *(True for _ in times)]
    return [
        {
            name: _moment(value) if moment and value is not None else value
            for name, value, moment in zip((*names, *times), row, is_time, strict=True)
        }
        for row in zip(*columns, strict=True)
    ]

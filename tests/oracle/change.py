"""Runs random apps that change twice, without Spark: records, plans of changes and the kernel.

A change drops, keeps, adds and alters queries at random, at a random place in each stream. The tasks that stay continue
from their snapshots; added ones begin there, or replay. Lines must be those of each query run alone from its start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from oracle.compare import Line, line_difference, lines_of_table, same_row
from oracle.drive import table_of
from oracle.generate import generate, generate_family
from oracle.render_cql import app_text
from oracle.shapes import App, Query, Row, Stream
from oracle.sql_apps import generate_sql

from kigen.engine.changes.difference import difference
from kigen.engine.changes.planned import planned_change
from kigen.engine.checkpoint.app_record import AppRecord, first_record
from kigen.engine.checkpoint.fingerprint import fingerprint
from kigen.language import CqlErrors
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan import bind, logical
from kigen.plan.tasks import Task

CHANGES = 2
Places = dict[str, int]  # stream -> rows that were read


@dataclass
class Life:
    """A query from its start to its end."""

    query: Query
    app: App  # that declares it
    begins: dict[str, tuple[Row, ...]]  # stream -> the rows that it may see
    lines: list[Line] = field(default_factory=list)
    ended: bool = False  # dropped by a change


def draw_pool(seed: int) -> App:
    """Draws streams, and queries over them."""
    draw = (generate, generate_family, generate_sql)[seed % 3]
    for attempt in range(1000):
        app = draw(seed * 1000 + attempt)
        if len(app.queries) >= 3 and any(stream.rows for stream in app.streams):
            return app
    raise AssertionError(f"seed {seed}: no app with three queries")


def draw_version(pool: App, rng: Random, before: App | None) -> App:
    """Draws an app of some of the pool's queries. Sometimes a query has the body of another one."""
    for _ in range(100):
        names = [q.name for q in pool.queries]
        kept = set(rng.sample(names, rng.randint(1, len(names))))
        queries = [q for q in pool.queries if q.name in kept]
        if before is not None:  # what an earlier change altered stays altered, mostly
            known = {q.name: q for q in before.queries}
            queries = [known.get(q.name, q) if rng.random() < 0.8 else q for q in queries]
        if rng.random() < 0.4:
            k, other = rng.randrange(len(queries)), rng.choice(pool.queries)
            queries[k] = replace(other, name=queries[k].name, readable=queries[k].readable)
        version = replace(pool, queries=tuple(queries))
        try:
            bind(app_text(version))
        except CqlErrors:  # it reads a query that was not drawn, or that has other columns now
            continue
        if before is None or version.queries != before.queries:
            return version
    return replace(pool, queries=pool.queries[:1] if before is None or len(before.queries) > 1 else pool.queries)


def declared(app: App) -> logical.App:
    return bind(app_text(app))


class ChangingRun:
    """A run of an app that changes."""

    def __init__(self, app: App, mode: str, rng: Random) -> None:
        self._mode, self._rng = mode, rng
        self._app = app
        self.plan = declared(app)
        self.record = first_record(self.plan, self._identify(self.plan))
        self.plan = self.record.app(self.plan)
        self._places: Places = dict.fromkeys((s.name for s in app.streams), 0)
        self._copied: dict[str, tuple[Stream, int]] = {}  # copy -> its rows, and how many of them were read
        self._runtimes = {t.name: TaskRuntime(t, self.plan, mode) for t in self.plan.tasks}
        self._tables: set[tuple[str, str]] = set()  # task and table, once it was read
        self.lives = [Life(q, app, {s.name: s.rows for s in app.streams}) for q in app.queries]

    def _identify(self, app: logical.App) -> dict[str, Any]:
        return fingerprint(app, self._mode, True, None, "1", [])

    def _life(self, name: str) -> Life:
        return next(life for life in reversed(self.lives) if life.query.name == name)

    # --- steps -----------------------------------------------------------------------------------------------------

    def read_on(self, share: float) -> None:
        """Reads about this share of what is left of each stream; 1: all of it, with its end."""
        for stream in self._app.streams:
            if not stream.table:
                left = len(stream.rows) - self._places[stream.name]
                self._advance(stream.name, stream, self._places, left if share >= 1 else int(left * share), share >= 1)
        for name, (stream, place) in list(self._copied.items()):
            left = len(stream.rows) - place
            given: Places = {name: place}
            self._advance(name, stream, given, left if share >= 1 else int(left * share), share >= 1)
            self._copied[name] = (stream, given[name])

    def _advance(self, name: str, stream: Stream, places: Places, count: int, ends: bool) -> None:
        stop = places[name] + count
        while places[name] < stop or ends:
            end = min(stop, places[name] + self._rng.choice((1, 2, 3, 7, 20)))
            ended = ends and end == stop
            for task in self.plan.tasks:
                if name in task.streams:
                    self._step(task, {name: StreamInput([table_of(stream, places[name], end)], ended=ended)})
            places[name] = end
            if ended:
                return

    def _step(self, task: Task, inputs: dict[str, StreamInput]) -> None:
        for table in (s for s in self.plan.streams if s.table and s.name in task.streams):
            if (task.name, table.name) not in self._tables:
                self._tables.add((task.name, table.name))
                rows = self._app.stream(table.copy_of or table.name)
                assert rows is not None
                inputs[table.name] = StreamInput([table_of(rows, 0, len(rows.rows))], ended=True)
        runtime = self._runtimes[task.name]
        for name, output in runtime.step(inputs).outputs.items():
            self._life(name).lines += lines_of_table(output, self._life(name).query)

    # --- changes ---------------------------------------------------------------------------------------------------

    def change(self, app: App, number: int) -> None:
        plan = declared(app)
        mine = self._identify(plan)
        found = difference(self.record.fingerprint, mine)
        times = [stream.time_of(row) for stream in app.streams if not stream.table for row in stream.rows]
        replay_us = self._rng.choice(times) if self._rng.random() < 0.3 else None
        planned = planned_change(self.record, plan, mine, found, None, replay_us)
        # A restart reads the record from its file.
        self.record = AppRecord.from_json(json.loads(json.dumps(planned.record.to_json())))
        assert self.record.tasks == planned.app.tasks
        self.plan, self._app = self.record.app(plan), app
        snapshots = {name: runtime.snapshot() for name, runtime in self._runtimes.items()}
        self._runtimes = {t.name: TaskRuntime(t, self.plan, self._mode) for t in self.plan.tasks}
        added = {task.name for task in planned.added_tasks}
        for name, runtime in self._runtimes.items():
            if name not in added:
                runtime.restore(snapshots[name])
        for name in found.dropped:
            self._life(name).ended = True
        self._copied = {n: at for n, at in self._copied.items() if n in {s.name for s in self.plan.streams}}
        for copy in self.plan.streams:
            if copy.added_by == number and copy.copy_of is not None and not copy.table:
                original = app.stream(copy.copy_of)
                assert original is not None
                assert copy.since_us is not None
                rows = tuple(row for row in original.rows if original.time_of(row) >= copy.since_us)
                self._copied[copy.name] = (replace(original, rows=rows), 0)
        for name in found.added:
            query = app.query(name)
            assert query is not None
            self.lives.append(Life(query, app, {s.name: self._seen(s, replay_us) for s in app.streams}))

    def _seen(self, stream: Stream, replay_us: int | None) -> tuple[Row, ...]:
        if stream.table:
            return stream.rows
        if replay_us is None:
            return stream.rows[self._places[stream.name] :]
        return tuple(row for row in stream.rows if stream.time_of(row) >= replay_us)


def alone(life: Life, mode: str) -> list[Line]:
    """Runs a query alone over the rows that it may see."""
    app = replace(life.app, streams=tuple(replace(s, rows=life.begins[s.name]) for s in life.app.streams))
    plan = declared(app)
    plan = replace(plan, queries=tuple(q for q in plan.queries if q.name == life.query.name))
    task = Task("task0", plan.queries)
    inputs = {}
    for name in task.streams:
        stream = app.stream(name)
        assert stream is not None
        inputs[name] = StreamInput([table_of(stream, 0, len(stream.rows))], ended=True)
    output = TaskRuntime(task, plan, mode).step(inputs).outputs.get(life.query.name)
    return [] if output is None else lines_of_table(output, life.query)


def _extra(got: list[Line], expected: list[Line]) -> list[Line]:
    """Returns the lines that are not among the expected ones."""
    left, extra = list(expected), []
    for line in got:
        twin = next((o for o in left if (o.at, o.to) == (line.at, line.to) and same_row(o.row, line.row)), None)
        if twin is None:
            extra.append(line)
        else:
            left.remove(twin)
    return extra


def judged_changes(seed: int, mode: str) -> tuple[str, int, int]:
    """Returns what is wrong, empty if nothing is; how many queries were kept by a change; how many were added by one."""
    rng = Random(f"change {seed}")
    pool = draw_pool(seed)
    app = draw_version(pool, rng, None)
    run = ChangingRun(app, mode, rng)
    kept = 0
    for number in range(1, CHANGES + 1):
        run.read_on(rng.choice((0.0, 0.2, 0.5, 0.8)))
        before = {id(life) for life in run.lives if not life.ended}
        app = draw_version(pool, rng, app)
        run.change(app, number)
        kept += sum(id(life) in before and not life.ended for life in run.lives)
    run.read_on(1)
    wrong = []
    for life in run.lives:
        expected = alone(life, mode)
        if life.ended:
            apart = "\n".join(str(line) for line in _extra(life.lines, expected)[:5])
        else:
            apart = line_difference(expected, life.lines)
        if apart:
            wrong.append(
                f"seed {seed}, {mode}, query {life.query.name}, ended {life.ended}:\n{apart}\n{app_text(life.app)}"
            )
    return "\n".join(wrong[:2]), kept, len(run.lives)

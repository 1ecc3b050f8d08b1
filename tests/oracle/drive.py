"""Runs the kernel on a random app that is cut into blocks at random, and judges its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import duckdb
import pyarrow as pa
from oracle.compare import Line, judge, line_difference, lines_of_table, same_names, shown_columns, whole_app
from oracle.evaluate import ARROW, Oracle, connection
from oracle.generate import generate, generate_family
from oracle.join_texts import generate_joins
from oracle.newer_texts import generate_newer
from oracle.render_cql import app_text
from oracle.shapes import App, Stream
from oracle.shrink import shrink
from oracle.sql_apps import generate_sql

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.blocks import FOREVER
from kigen.lifetimes.joins.sliced_runtime import Move, SlicedRuntime
from kigen.plan import logical
from kigen.plan.binder import bind
from kigen.plan.shared_joins.slices import join_slices, why_whole
from kigen.plan.tasks import Task, extract_tasks

MODES = ("dt", "nt")
Outputs = dict[str, list[Line]]


def table_of(stream: Stream, start: int, stop: int) -> pa.Table:
    rows = stream.rows[start:stop]
    columns = {f"c{k}": pa.array([r[k] for r in rows], ARROW[c.type]) for k, c in enumerate(stream.cols)}
    columns["_ts"] = pa.array([stream.time_of(r) for r in rows], pa.int64())
    return pa.table(columns)


class Cutter:
    """Gives out the streams of a task in pieces. `style` ranges from single tuples to everything at once."""

    def __init__(self, app: App, names: tuple[str, ...], rng: Random, style: str) -> None:
        self.rng, self.style = rng, style
        self.streams = {s.name: s for s in app.streams if s.name in names}
        self.places = dict.fromkeys(names, 0)
        self.open = set(names)

    def next(self) -> dict[str, StreamInput]:
        rng = self.rng
        names = sorted(self.open)
        if self.style != "whole":
            names = rng.sample(names, rng.randint(1, len(names)))
        return {name: self._piece(name) for name in names}

    def _piece(self, name: str) -> StreamInput:
        rng, stream = self.rng, self.streams[name]
        start, count = self.places[name], len(stream.rows)
        stop = {"whole": count, "single": start + 1}.get(self.style, start + rng.choice((0, 1, 2, 3, 7, 20)))
        stop = self.places[name] = min(stop, count)
        middle = rng.randint(start, stop)
        given = StreamInput([table_of(stream, start, middle), table_of(stream, middle, stop)] if stop > start else [])
        if stop == count and (self.style == "whole" or rng.random() < 0.6):
            given.ended = True
            self.open.discard(name)
        elif stop < count and not stream.table and rng.random() < 0.2:
            given.progress_us = min(row[stream.ts] for row in stream.rows[stop:])
        return given


def run_task(app: App, plan: logical.App, task: Task, mode: str, rng: Random, style: str) -> Outputs:
    runtime = TaskRuntime(task, plan, mode)
    cutter = Cutter(app, task.streams, rng, style)
    outputs: Outputs = {q.name: [] for q in task.queries}
    while True:
        result = runtime.step(cutter.next())
        for name, table in result.outputs.items():
            outputs[name] += lines_of_table(table, app.query(name))
        if not cutter.open:
            break
        if rng.random() < 0.15:
            saved = runtime.snapshot()
            runtime = TaskRuntime(task, plan, mode)
            runtime.restore(saved)
    if not result.finished:
        raise AssertionError(f"seed {app.seed}, {mode}, cut {style}: all streams ended, yet the task is not finished")
    return outputs


def run_sliced(app: App, plan: logical.App, task: Task, mode: str, rng: Random, style: str) -> Outputs:
    """Runs every slice at its own pace: after each step, slices after the first advance at random, as far as they may
    or less."""
    runtime = SlicedRuntime(task, plan, mode)
    cutter = Cutter(app, task.streams, rng, style)
    outputs: Outputs = {q.name: [] for q in task.queries}
    later = len(join_slices(task)[0].queries) - 1
    instants = sorted({row[s.ts] + d for s in app.streams if s.name in task.streams for row in s.rows for d in (0, 1)})
    while True:
        until = [rng.choice((*instants, FOREVER)) if instants else FOREVER for _ in range(later)]
        if not cutter.open and rng.random() < 0.3:
            until = [FOREVER] * later
        if rng.random() < 0.5:
            until.sort(reverse=True)
        moves = [None if rng.random() < 0.3 and cutter.open else Move(at) for at in until]
        given = cutter.next() if cutter.open else {}
        result = runtime.step(given, None, None if rng.random() < 0.05 else moves)
        for name, table in result.outputs.items():
            outputs[name] += lines_of_table(table, app.query(name))
        if result.finished:
            return outputs
        if rng.random() < 0.15:
            saved = runtime.snapshot()
            runtime = SlicedRuntime(task, plan, mode)
            runtime.restore(saved)


def judged_slices(seed: int) -> str | None:
    """Checks for a family that slices that run apart give the lines of a task that runs whole. Returns None if its
    slices cannot run apart."""
    app = generate_family(seed)
    plan = bind(app_text(app))
    tasks = [task for task in extract_tasks(plan) if why_whole(task) is None]
    found = []
    for task in tasks:
        for mode in MODES:
            whole = run_task(app, plan, task, mode, Random(f"{seed} {mode}"), "mixed")
            for style in ("whole", "single", "mixed"):
                sliced = run_sliced(app, plan, task, mode, Random(f"{seed} {mode} {style}"), style)
                for name in whole:
                    if apart := line_difference(whole[name], sliced[name]):
                        found.append(f"[{mode}, {style}] seed {seed}, query {name}: whole and sliced differ\n{apart}")
    return "\n".join(found[:3]) if tasks else None


def run_kernel(app: App, plan: logical.App, mode: str, rng: Random, style: str) -> Outputs:
    found: Outputs = {}
    for task in extract_tasks(plan):
        found.update(run_task(app, plan, task, mode, rng, style))
    return found


def failures(app: App, plan: logical.App, oracle: Oracle) -> list[str]:
    """Returns everything that is wrong with the kernel's answers: against the oracle, between cuts, between the
    methods. Empty is right."""
    found = schema_failures(app, plan)
    first: Outputs | None = None
    for mode in MODES:
        for style in ("whole", Random(f"{app.seed} {mode}").choice(("single", "mixed", "mixed"))):
            rng = Random(f"{app.seed} {mode} {style}")
            outputs = run_kernel(app, plan, mode, rng, style)
            for q in app.queries:
                report = judge(oracle, q, outputs[q.name])
                if report:
                    found.append(f"[{mode}, {style}] {report}")
                elif first is not None and (apart := line_difference(first[q.name], outputs[q.name])):
                    found.append(
                        f"[{mode}, {style}] seed {app.seed}, query {q.name}: lines differ from [dt, whole]\n{apart}"
                    )
            first = first if first is not None else outputs
    return found


def schema_failures(app: App, plan: logical.App) -> list[str]:
    """Compares the names and types of results with those of the plan."""
    found = []
    for q in app.queries:
        planned = next(p for p in plan.queries if p.name == q.name)
        names, types = [c.name for c in planned.schema], [c.type.value for c in planned.schema]
        if types != [c.type for c in q.cols] or not same_names(names, [c.name for c in q.cols]):
            found.append(f"seed {app.seed}, query {q.name}: columns {names} {types}, required {shown_columns(q.cols)}")
    return found


def judged(seed: int) -> str:
    """Judges one seed, from text to lines. Returns an empty text, or a report with a shrunk app."""
    return _report(generate(seed), _failures_of_text)


def judged_sql(seed: int) -> str:
    """Judges one seed of the apps with the newer parts of the language."""
    return _report(generate_sql(seed), _failures_of_text)


def judged_family(seed: int) -> str:
    """Judges a family of queries over one join. Each query alone must give the same lines, too."""
    return _report(
        generate_family(seed), lambda app: _failures_of_text(app) + unlike_separate(app, bind(app_text(app)))
    )


def unlike_separate(app: App, plan: logical.App) -> list[str]:
    """Returns the queries whose lines, ghosts and deaths included, differ from those of a plan that shares nothing
    between joins."""
    found = []
    for mode in MODES:
        shared, separate = (
            run_kernel(app, p, mode, Random(f"{app.seed} {mode} {p.sharing}"), "mixed")
            for p in (plan, replace(plan, sharing=False))
        )
        for q in app.queries:
            if apart := line_difference(shared[q.name], separate[q.name]):
                found.append(f"[{mode}] seed {app.seed}, query {q.name}: shared and separate differ\n{apart}")
    return found


def _report(app: App, failures_of: Callable[[App], list[str]]) -> str:
    found = failures_of(app)
    if not found:
        return ""
    small = shrink(app, lambda smaller: bool(failures_of(smaller)))
    return "\n".join([*found[:3], "--- made small:", whole_app(small), *failures_of(small)[:1]])


def _failures_of_text(app: App) -> list[str]:
    return failures(app, bind(app_text(app)), Oracle(app, _connection()))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return connection()


def judged_newer(seed: int) -> str:
    """Judges an app of the newest constructs."""
    found = _failures_of_text(app := generate_newer(seed))
    return "\n".join([*found[:3], whole_app(app)]) if found else ""


def judged_joins(seed: int) -> str:
    """Judges an app of joins with partners."""
    found = _failures_of_text(app := generate_joins(seed))
    return "\n".join([*found[:3], whole_app(app)]) if found else ""

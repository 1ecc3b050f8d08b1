"""Plans a change: the app that runs after it, which tasks it keeps, and what becomes of outputs. Changes nothing.

Invariant: a task that is kept keeps its name, its plan and its state; an added query gets a task with a name that no
task had before, so it can never meet older state. Added queries share with each other, not with older ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from glob import escape
from typing import Any, Protocol
from urllib.parse import quote

from kigen.engine.changes.difference import Difference
from kigen.engine.checkpoint.app_record import AppRecord
from kigen.engine.errors import ArgumentError
from kigen.plan.changes.copies import can_replay, copy_of, reading
from kigen.plan.logical import App, Query, SourceStream
from kigen.plan.paths import outputs_of
from kigen.plan.tasks import Task, extract_tasks, task_number


class Ended(Protocol):
    """Tells whether a log has ended for the tasks that read it (`kigen.spark.admission.stand.Stand`)."""

    def ended(self, stream: str) -> bool: ...


@dataclass(frozen=True)
class PlannedChange:
    """A change that was planned. `app` is the one after it."""

    found: Difference
    record: AppRecord  # after the change, without the starts of its tasks
    app: App
    added_tasks: tuple[Task, ...]
    dropped_tasks: tuple[str, ...]
    set_aside: dict[str, str]  # output that exists -> its name after the change
    follows: tuple[str, ...]  # added queries whose rows go where rows of a dropped query are
    replay_us: int | None = None


def planned_change(
    record: AppRecord,
    declared: App,
    mine: dict[str, Any],
    found: Difference,
    stand: Ended | None = None,
    replay_us: int | None = None,
    output: str | None = None,
) -> PlannedChange:
    """Plans the change from the app of a record to the declared one. Raises ArgumentError for a replay that a source
    does not allow."""
    if not declared.queries:
        raise ArgumentError("an app needs at least one query: stop the run instead of dropping its last one")
    number = record.change + 1
    kept = _kept_tasks(record, found)
    copies = _copies(record, declared, found, number, stand, replay_us)
    streams = _streams(record, declared, found, kept, number)
    names = {name: copy.name for name, copy in copies.items()}
    added = {q.name: replace(reading(q, names), added_by=number) for q in declared.queries if q.name in found.added}
    part = replace(declared, streams=(*streams, *copies.values()), queries=tuple(added.values()), tasks=())
    added_tasks = extract_tasks(part, record.next_task) if added else ()
    tasks = (*kept, *added_tasks)
    gone = tuple(task.name for task in record.tasks if task.name not in {t.name for t in kept})
    before = {query.name: query for query in record.queries}
    queries = tuple(added.get(q.name) or before[q.name] for q in declared.queries)
    read = {stream for task in tasks for stream in task.streams}
    used = tuple(s for s in part.streams if s.copy_of is None or s.name in read)
    app = replace(declared, streams=used, queries=queries, tasks=tasks)
    aside, follows = _outputs(app, added, found, output)
    following = max((task_number(task.name) + 1 for task in added_tasks), default=record.next_task)
    left = {name: starts for name, starts in record.starts.items() if name in {t.name for t in kept}}
    after = replace(
        record,
        fingerprint=mine,
        streams=used,
        queries=queries,
        tasks=tasks,
        change=number,
        next_task=following,
        starts=left,
        todo={"aside": aside, "clear": _to_clear(found, added)},
        text=declared.text,
        started_with="",
    )
    return PlannedChange(found, after, app, added_tasks, gone, aside, follows, replay_us)


def _kept_tasks(record: AppRecord, found: Difference) -> tuple[Task, ...]:
    """Returns the tasks with queries that are kept. A task whose slices run separately stays whole: they are cut by the
    windows of all its queries."""
    sliced = (record.fingerprint.get("sliced") or "").split(", ")
    kept = []
    for task in record.tasks:
        if any(query.name in found.kept for query in task.queries):
            kept.append(task if task.name in sliced else task.without(found.dropped))
    return tuple(kept)


def _streams(
    record: AppRecord, declared: App, found: Difference, kept: tuple[Task, ...], number: int
) -> tuple[SourceStream, ...]:
    """Returns the declared streams, and older copies that tasks still read."""
    read = {stream for task in kept for stream in task.streams}
    before = {stream.name: stream for stream in record.streams}
    streams = [
        replace(s, added_by=number) if s.name in found.new_streams else before.get(s.name, s) for s in declared.streams
    ]
    return (*streams, *(s for s in record.streams if s.copy_of is not None and s.name in read))


def _copies(
    record: AppRecord, declared: App, found: Difference, number: int, stand: Ended | None, replay_us: int | None
) -> dict[str, SourceStream]:
    """Returns copies of the streams that added queries cannot read where the others are."""
    read = {stream for task in record.tasks for stream in task.streams}
    taken = {s.name for s in (*declared.streams, *record.streams)}
    copies: dict[str, SourceStream] = {}
    for name in dict.fromkeys(s for q in declared.queries if q.name in found.added for s in q.streams):
        stream = declared.stream(name)
        if replay_us is not None and not stream.table:
            if not can_replay(stream):
                raise ArgumentError(
                    f"--replay-from: stream '{name}' comes FROM {stream.source.name}, which keeps no older tuples: "
                    "leave --replay-from out, and added queries start from now"
                )
            copies[name] = copy_of(stream, number, taken, replay_us)
        elif name in read - found.moved_streams and (stream.table or (stand is not None and stand.ended(name))):
            copies[name] = copy_of(stream, number, taken)
    return copies


def _outputs(
    app: App, added: dict[str, Query], found: Difference, output: str | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns which existing files added queries would write to, each with its new name, and which added queries write
    to a place that is no file and that a dropped query of the same name has written to."""
    keys = {f"{kind} {name}" for name in added for kind in ("query", "output")}
    keys |= {
        f"{kind} {s.name}" for s in app.streams if s.name in found.new_streams for kind in ("shed", "errors", "late")
    }
    aside: dict[str, str] = {}
    for place in outputs_of(app, output):
        if place.key in keys and os.path.lexists(place.path):
            aside[place.path] = _free(place.path)
    follows = tuple(
        name
        for name, query in added.items()
        if name in found.dropped and query.into is not None and query.into.option("path") is None
    )
    return aside, tuple(name for name in follows if _keeps_rows(added[name]))


def _keeps_rows(query: Query) -> bool:
    return query.into is not None and query.into.name != "console" and not query.key


def _free(path: str) -> str:
    """Returns the first free name for an output that is set aside. It does not end like one that readers look for."""
    number = 1
    while os.path.lexists(f"{path}.old-{number}"):
        number += 1
    return f"{path}.old-{number}"


def _to_clear(found: Difference, added: dict[str, Query]) -> list[str]:
    """Returns what lies below the checkpoint under names that mean something else from now on, as patterns."""
    clear = []
    for name in dict.fromkeys((*added, *found.dropped)):
        clear += [f"results/{escape(name)}", f"changes/{escape(quote(name, safe=''))}"]
    for stream in sorted(found.moved_streams):
        table = escape(quote(stream, safe=""))
        clear += [f"follow/{escape(stream)}.visits", f"ingest/{escape(stream)}"]
        clear += [f"tables/{table}.arrow", f"tables/{table}@*.arrow"]
    return clear

"""Decides where the tasks that a change adds start in each of their streams.

From now on means: where the run has come in the stream, so an added query sees what the others have still to see. A
changed query begins where the old one ended: its task may be behind the others, or ahead of them. A stream that no task
has read starts as in a new app. Invariant: the starts are part of the record of the change, so a
run that is killed after the change starts the tasks at the same places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kigen.connectors import LiveSource, Source
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.engine.changes.planned import PlannedChange
from kigen.engine.checkpoint.app_record import AppRecord
from kigen.plan.logical import SourceStream
from kigen.plan.tasks import Task
from kigen.spark.admission.offsets import first_cursor
from kigen.spark.admission.stand import Stand


def begun_us(planned: PlannedChange, stand: Stand | None, now_us: int) -> dict[str, int]:
    """Returns when streams began that a change added; live ones count from it. A copy began with its original."""
    record = planned.record
    if stand is None:
        return record.begun_us
    names = {stream.name for stream in planned.app.streams}
    found = {name: at for name, at in record.begun_us.items() if name in names}
    for stream in planned.app.streams:
        if stream.added_by == record.change:
            original = stream.copy_of or stream.name
            is_new = original in planned.found.moved_streams
            found[stream.name] = now_us if is_new else record.begun_us.get(original, stand.started_us)
    return found


def with_starts(
    planned: PlannedChange,
    stand: Stand | None,
    sources: Mapping[str, Source],
    begun: dict[str, int],
    before: Iterable[Task] = (),
) -> AppRecord:
    """Returns the record of the change, with the starts of the added tasks. `sources` has those of their streams,
    `before` are the tasks that ran before the change."""
    streams = {stream.name: stream for stream in planned.app.streams}
    task_of = {query.name: task.name for task in before for query in task.queries}
    starts = dict(planned.record.starts)
    for task in planned.added_tasks:
        changed = {query.name for query in task.queries} & set(planned.found.dropped)
        old = {task_of[name] for name in changed if name in task_of}
        starts[task.name] = {name: _start(streams[name], sources[name], stand, planned, old) for name in task.streams}
    dropped = (0 if stand is None else stand.seq, planned.dropped_tasks)
    return replace(planned.record, starts=starts, begun_us=begun, dropped=dropped)


def _start(
    stream: SourceStream, source: Source, stand: Stand | None, planned: PlannedChange, old: Collection[str]
) -> dict[str, Any]:
    """Returns where a task begins in a stream. `old` are the tasks that had its queries before they changed."""
    live, original = source.live, stream.copy_of or stream.name
    known = stand is not None and original not in planned.found.moved_streams and not stream.table
    if known and stream.since_us is None:
        assert stand is not None
        cursor = stand.cursor(original, old)
        if live and cursor is not None:
            return {"cursor": {**cursor, "progress": None, "ended": False}}
        if not live and original in stand.logs:
            return {"log": {**stand.logs[original], "ended": False}}
    if not live:
        return {"log": {"pos": source.initial(), "ts": None, "ended": False}}
    cursor = first_cursor(source.initial())
    if stream.since_us is not None and isinstance(source, SyntheticSource):
        cursor["index"] = source.arrived_by(stream.since_us)
    assert isinstance(source, LiveSource)
    return {"cursor": cursor}

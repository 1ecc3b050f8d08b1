"""Compares the app of a run with that of its checkpoint, before anything is opened: the same, changed, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kigen.engine.changes.difference import Difference, difference, option_changes
from kigen.engine.changes.files import finish_change
from kigen.engine.checkpoint.app_record import AppRecord, first_record, read_record, write_record
from kigen.engine.checkpoint.fingerprint import changes_between, refusal
from kigen.engine.checkpoint.formats import FORMAT
from kigen.engine.checkpoint.savepoint import MOVED
from kigen.plan.logical import App

Fingerprint = Callable[[App], dict[str, Any]]


def adopt(
    checkpoint: Path, declared: App, identify: Fingerprint, may_change: bool, sync: bool
) -> tuple[AppRecord, dict[str, Any], Difference | None]:
    """Returns the record of the checkpoint, the fingerprint of the declared app, and what differs; None: nothing.

    A new checkpoint gets a record. `identify` returns the fingerprint of an app; tasks that run slice by slice are
    those of the app that runs. Raises CheckpointMismatch.
    """
    mine = identify(declared)
    record = read_record(checkpoint, str(mine["kigen"]))
    if record is None:
        record = first_record(declared, mine)
        write_record(checkpoint, record, sync)
        return record, mine, None
    record = finish_change(checkpoint, record, sync)
    if record.fingerprint.get("output") == MOVED and mine["output"] is not None:
        record = replace(record, fingerprint={**record.fingerprint, "output": mine["output"]})
        write_record(checkpoint, record, sync)
    if record.tasks:
        mine["sliced"] = identify(record.app(declared))["sliced"]
    theirs = record.fingerprint
    found = difference(theirs, mine)
    listed = changes_between(theirs, mine)
    if option_changes(theirs, mine, found) or (listed and not may_change):
        raise refusal(checkpoint, listed)
    if not record.tasks:  # an older version wrote it, without plans
        if not found.is_empty:
            listed.append("it holds no plans yet: run the unchanged app on it once with this Kigen, then change it")
            raise refusal(checkpoint, listed)
        record = first_record(declared, mine)
        write_record(checkpoint, record, sync)
    elif found.is_empty and (listed or theirs.get("found_format") != FORMAT):
        record = replace(record, fingerprint=mine, streams=_streams(record, declared), text=declared.text)
        write_record(checkpoint, record, sync)
    return record, mine, None if found.is_empty else found


def _streams(record: AppRecord, declared: App) -> tuple[Any, ...]:
    """Returns the streams after a change of streams that no query reads."""
    read = {stream for task in record.tasks for stream in task.streams}
    before = {stream.name: stream for stream in record.streams if stream.name in read}
    mine = [before.get(stream.name, stream) for stream in declared.streams]
    return (*mine, *(s for s in before.values() if s.copy_of is not None))

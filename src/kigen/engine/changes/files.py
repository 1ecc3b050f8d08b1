"""Does with files what a change of the app has recorded: sets outputs aside, removes what dropped queries have left.

Invariant: each step may be done again after a kill, before anything is opened, with the same result. An output of a
dropped query is never removed; it gets another name if an added query writes to its place.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from kigen.durable import move, sync_directory
from kigen.engine.checkpoint.app_record import AppRecord, write_record


def finish_change(checkpoint: Path, record: AppRecord, sync: bool) -> AppRecord:
    """Does what the record lists, and returns the record without the list."""
    if not record.todo:
        return record
    for path, target in record.todo.get("aside", {}).items():
        if os.path.lexists(path) and not os.path.lexists(target):
            move(path, target, sync)
            if sync:
                sync_directory(os.path.dirname(path) or ".")
    for place in record.todo.get("clear", []):
        for found in list(checkpoint.glob(place)):
            if found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink()
    done = replace(record, todo={})
    write_record(checkpoint, done, sync)
    return done

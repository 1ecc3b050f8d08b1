"""Reads and writes `app.json`: the app of a checkpoint, with the plans that run and what its last change recorded.

Invariant: the file is replaced as a whole, and that is the moment of a change: a process that is killed leaves the app
before the change or the one after it. What remains to be done with files is listed in it (`todo`) and is done at the
next start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile
from kigen.durable import replace as replace_file
from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
from kigen.engine.checkpoint.formats import FORMAT, migrated
from kigen.plan.changes import stored_plans
from kigen.plan.logical import App, Query, SourceStream
from kigen.plan.tasks import Task, extract_tasks, task_number

FILE = "app.json"


@dataclass(frozen=True)
class AppRecord:
    """The app of a checkpoint."""

    fingerprint: dict[str, Any]  # of the app as declared
    streams: tuple[SourceStream, ...] = ()  # that tasks read, with copies
    queries: tuple[Query, ...] = ()
    tasks: tuple[Task, ...] = ()  # empty: the record is of an older version, which kept no plans
    change: int = 0  # number of the last change
    next_task: int = 0  # number of the next task that a change adds
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)  # as RunSpec.starts
    begun_us: dict[str, int] = field(default_factory=dict)
    dropped: tuple[int, tuple[str, ...]] = (0, ())
    todo: dict[str, Any] = field(default_factory=dict)  # files to set aside or to remove
    text: str = ""  # of the app, with included files and values of parameters
    # The app was changed while it ran: digest of the app that the command had been started with. Empty: it was not.
    started_with: str = ""

    def app(self, declared: App) -> App:
        """Returns the app that runs: its streams, queries and plans are those of the record."""
        return replace(declared, streams=self.streams, queries=self.queries, tasks=self.tasks)

    def to_json(self) -> dict[str, Any]:
        plans = {"streams": self.streams, "queries": self.queries, "tasks": self.tasks}
        return {
            **self.fingerprint,
            "plans": stored_plans.to_json(plans),
            "change": self.change,
            "next_task": self.next_task,
            "starts": self.starts,
            "begun_us": self.begun_us,
            "dropped": list(self.dropped),
            "todo": self.todo,
            "text": self.text,
            "started_with": self.started_with,
        }

    @staticmethod
    def from_json(found: dict[str, Any]) -> AppRecord:
        if "plans" not in found:
            return AppRecord(found)
        plans = stored_plans.from_json(found["plans"])
        after, gone = found["dropped"]
        apart = ("plans", "change", "next_task", "starts", "begun_us", "dropped", "todo", "text", "started_with")
        return AppRecord(
            {key: value for key, value in found.items() if key not in apart},
            plans["streams"],
            plans["queries"],
            plans["tasks"],
            found["change"],
            found["next_task"],
            found["starts"],
            found["begun_us"],
            (after, tuple(gone)),
            found["todo"],
            found.get("text", ""),
            found.get("started_with", ""),
        )


def first_record(app: App, mine: dict[str, Any]) -> AppRecord:
    """Returns the record of an app that has not changed yet."""
    tasks = extract_tasks(app)
    following = max((task_number(task.name) for task in tasks), default=-1) + 1
    return AppRecord(mine, app.streams, app.queries, tasks, next_task=following, text=app.text)


def read_record(checkpoint: Path, kigen: str) -> AppRecord | None:
    """Reads the record of a checkpoint; None if the checkpoint is new. `kigen` is the version that reads it.

    Raises CheckpointMismatch, CheckpointFormatError, and DamagedFile if the file is torn.
    """
    path = checkpoint / FILE
    if not path.exists():
        if (checkpoint / "spark").exists():
            raise CheckpointMismatch(f"{checkpoint} holds a Spark checkpoint without {FILE}: use an empty directory")
        return None
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or not all(isinstance(found.get(key), dict) for key in ("streams", "queries")):
            raise ValueError("it does not describe an app")
        record = AppRecord.from_json(migrated(found, {"kigen": kigen}))
    except stored_plans.StoredPlanError as error:
        todo = "use the Kigen that wrote it, or start from the beginning with a new --checkpoint directory"
        raise CheckpointMismatch(f"{path}, written by Kigen {found.get('kigen', '?')}: {error}: {todo}") from error
    except (ValueError, KeyError, TypeError) as error:
        if type(error).__name__ == "CheckpointFormatError":
            raise
        torn = f"it is torn ({path.stat().st_size} bytes: {error}), so the app of this checkpoint is unknown"
        todo = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
        raise DamagedFile(str(path), torn, todo) from error
    return record


def write_record(checkpoint: Path, record: AppRecord, sync: bool = True) -> None:
    """Replaces the record."""
    body = {**record.to_json(), "format": FORMAT}
    body.pop("found_format", None)
    replace_file(checkpoint / FILE, json.dumps(body, indent=1).encode(), sync)

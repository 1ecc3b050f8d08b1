"""Savepoints: a copy of a checkpoint from which another version, or another machine, continues.

A savepoint is a folder like a checkpoint, with `savepoint.json`, which says what it is of. It holds state, positions,
queues of pushed streams and the app that runs. It does not hold what is read in place (files, topics, tables of a
database), outputs, the token of a server, or code of functions that are not beside the app file.

Invariant: it names no place of the folder that it was made from. The first run on it decides once, before anything is
opened, which outputs begin anew: those whose files are not there. The others are cut back to their positions.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kigen.connectors import Sink
from kigen.durable import make_directories, move, sync_directory, sync_file
from kigen.durable import replace as replace_file
from kigen.engine.checkpoint.app_record import FILE as APP_FILE
from kigen.engine.checkpoint.app_record import AppRecord, read_record, write_record
from kigen.engine.checkpoint.formats import FORMAT
from kigen.engine.errors import ArgumentError
from kigen.plan.connectors.registry import connector_named
from kigen.spark.sink.alignment import align
from kigen.spark.sink.round_records import rewrite_positions
from kigen.spark.sink.sink_log import SinkLog

FILE = "savepoint.json"
MOVED = "saved"  # stands for --output in a savepoint: any folder continues it
_LEFT_OUT = ("owner.json", "owner.lock", "serve", "spool", "rounds.key", FILE)


def write_savepoint(checkpoint: Path, to: Path) -> dict[str, Any]:
    """Copies a checkpoint that no run writes to. Returns what `savepoint.json` says. Raises ArgumentError."""
    record = read_record(checkpoint, version("kigen")) if checkpoint.is_dir() else None
    if record is None or not record.tasks:
        raise ArgumentError(f"{checkpoint} is no checkpoint of this Kigen: give the directory of 'kigen run'")
    if os.path.lexists(to):
        raise ArgumentError(f"{to} exists: name a folder that does not")
    if to.absolute().is_relative_to(checkpoint.absolute()):
        raise ArgumentError(f"{to} lies in the checkpoint itself: name another folder")
    align(checkpoint, can_cut_back=True)
    unfinished = to.with_name(f"{to.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    make_directories(unfinished.parent, True)
    shutil.copytree(checkpoint, unfinished, symlinks=True, ignore=lambda folder, names: _ignored(checkpoint, folder))
    about = _about(checkpoint, record)
    if record.fingerprint.get("output") is not None:
        record = replace(record, fingerprint={**record.fingerprint, "output": MOVED})
    write_record(unfinished, replace(record, todo={}))
    replace_file(unfinished / FILE, json.dumps(about, indent=1).encode())
    _sync(unfinished)
    move(unfinished, to, True)
    sync_directory(to.parent)
    return about


def _ignored(checkpoint: Path, folder: str) -> list[str]:
    return [*_LEFT_OUT, APP_FILE] if Path(folder) == checkpoint else []


def _about(checkpoint: Path, record: AppRecord) -> dict[str, Any]:
    last = SinkLog(str(checkpoint)).last()
    reads = {
        stream.name: {"connector": stream.source.name, "path": stream.source.option("path")}
        for stream in record.streams
        if (spec := connector_named(stream.source.name)) is None or not spec.is_pushed
    }
    kept = ("results", "changes")  # below the checkpoint, so they are in the savepoint
    positions = {} if last is None else last.sink_positions
    outputs = {name: at for name, at in positions.items() if not any(f" {word}" in name for word in kept)}
    return {
        "kigen": version("kigen"),
        "format": FORMAT,
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "batch": -1 if last is None else last.batch,
        "queries": [query.name for query in record.queries],
        "reads_in_place": reads,
        "outputs": outputs,
        "arrived": False,
        "app": record.text,
    }


def arrive(checkpoint: Path, outputs: Mapping[str, list[tuple[str, Sink]]], sync: bool) -> list[str]:
    """Prepares the first run on a savepoint. Returns the outputs that begin anew, since their files are not here."""
    about = read_savepoint(checkpoint)
    if about is None or about["arrived"]:
        return []
    anew = [
        name
        for pairs in outputs.values()
        for name, sink in pairs
        if (path := getattr(sink, "path", None)) is not None and not os.path.exists(path)
    ]
    log = SinkLog(str(checkpoint))
    for record in log.all():
        record.sink_positions = {name: at for name, at in record.sink_positions.items() if name not in anew}
        log.append(record, sync)
    rewrite_positions(checkpoint, anew, sync)
    replace_file(checkpoint / FILE, json.dumps({**about, "arrived": True}, indent=1).encode(), sync)
    return anew


def read_savepoint(checkpoint: Path) -> dict[str, Any] | None:
    """Returns what `savepoint.json` says; None if the checkpoint does not come from a savepoint."""
    try:
        found: dict[str, Any] = json.loads((checkpoint / FILE).read_bytes())
    except FileNotFoundError:
        return None
    return found


def missing_text(about: Mapping[str, Any]) -> str:
    """Says what a savepoint does not hold."""
    lines = [
        f"not in it: what stream '{name}' reads in place, {one['connector']}"
        + ("" if one["path"] is None else f" {one['path']}")
        for name, one in about["reads_in_place"].items()
        if one["connector"] != "synthetic"
    ]
    lines += [
        f"not in it: output '{name}', which continues after {json.dumps(at)}" for name, at in about["outputs"].items()
    ]
    return "".join(f"{line}\n" for line in lines)


def _sync(folder: Path) -> None:
    """Makes all files durable."""
    for place, _, names in os.walk(folder):
        for name in names:
            sync_file(os.path.join(place, name))
        sync_directory(place)

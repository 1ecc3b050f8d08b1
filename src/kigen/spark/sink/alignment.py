"""Compares Spark's logs with the sink log at the start of a run, removes what a power cut tore, or refuses the run.

Batch n takes four steps. Spark writes offset n, its tasks write state n + 1, the sink writes the outputs and then
record n, and Spark writes commit n. So after a kill the last offset is n or n + 1 if the last record is n. A power cut
without syncs may lose or empty any of these files:

| what is found | what is done |
|---|---|
| an offset > record + 1, or a commit > record | these batches have no lines yet: files removed, batches repeated |
| offset record + 1 is torn | nothing acted on it: file removed, batch planned anew |
| the offset of the record is torn or missing | outputs cut back to an older record, if there is one and all can be cut
| | anything else | DamagedFile, which says what to do |

An epoch is one batch, and its round log has what Spark's offset lacks: the rounds (kigen.spark.rounds.round_log). So
the log stands for the offset. An epoch that Spark has not committed is planned anew, which makes the logged rounds
again; its offset is removed.

Invariant: after `align`, the last offset is that of the last record or the next one, and no commit is later than the
last record. Cost: a listing of four directories, once per start.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from kigen.durable import DamagedFile, remove, sync_directory
from kigen.spark.rounds import round_log
from kigen.spark.sink.spark_files import COMMITS, FOLDER, OFFSETS, STATE

_ANEW = "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory"


@dataclass(frozen=True)
class LogFiles:
    """The files that exist, as batch numbers. A file that is empty or torn is only in the sets of torn files."""

    offsets: frozenset[int]
    commits: frozenset[int]
    records: frozenset[int]  # of the sink log, which refuses torn records itself
    torn_offsets: frozenset[int] = frozenset()
    torn_commits: frozenset[int] = frozenset()


@dataclass(frozen=True)
class FilesToRemove:
    """Files to remove, as batch numbers."""

    offsets: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)


class Unaligned(ValueError):
    """The run cannot continue from these logs. The message says why."""


def decide(found: LogFiles, can_cut_back: bool) -> FilesToRemove:
    """Decides which files to remove. Does no I/O. Raises Unaligned.

    `can_cut_back`: every output can be cut back to an older record.
    """
    newest = max(found.records, default=-1)
    possible = sorted((r for r in found.records if _can_continue(r, found.offsets)), reverse=True)
    if not found.records or min(found.records) == 0:
        possible.append(-1)  # no record is older: the run begins again
    what = f"the sink log reaches batch {newest}, and {_readable(found.offsets)} of Spark's offset log can be read"
    if not possible:
        raise Unaligned(f"{what}; no record of the sink log fits them")
    record = possible[0]
    if record != newest and not can_cut_back:
        raise Unaligned(f"{what}; rows of later batches were sent to other nodes and cannot be taken back")
    return FilesToRemove(
        sorted(
            n for n in found.offsets | found.torn_offsets if n > record + 1 or (n > record and n in found.torn_offsets)
        ),
        sorted(n for n in found.commits | found.torn_commits if n > record or n in found.torn_commits),
        sorted(n for n in found.records if n > record),
    )


def _can_continue(record: int, offsets: frozenset[int]) -> bool:
    """Checks that Spark can start at this record: it reads its last offset and the one before, if there is one."""
    return record in offsets and (record == 0 or record - 1 in offsets or record + 1 in offsets)


def _readable(batches: frozenset[int]) -> str:
    return f"batches {min(batches)} to {max(batches)}" if batches else "nothing"


def align(checkpoint: Path, can_cut_back: bool) -> FilesToRemove:
    """Aligns the logs of a checkpoint, before Spark and the outputs are opened. Raises DamagedFile."""
    spark, sink = checkpoint / FOLDER, checkpoint / "sink"
    if not spark.is_dir():
        return FilesToRemove()  # nothing to compare: if there is a record, Spark's first batch will not match it
    offsets, torn_offsets = _numbered(spark / OFFSETS)
    commits, torn_commits = _numbered(spark / COMMITS)
    records = frozenset(int(path.stem) for path in sink.glob("[0-9]*.json"))
    logged = frozenset(epoch - 1 for epoch in round_log.epochs(checkpoint))
    found = LogFiles(offsets | logged, commits, records, torn_offsets - logged, torn_commits)
    try:
        dropped = decide(found, can_cut_back)
    except Unaligned as error:
        raise DamagedFile(
            str(spark / OFFSETS), f"{error}. A power cut under durability = process can cause this", _ANEW
        ) from error
    for folder, names in (
        (spark / OFFSETS, [str(n) for n in dropped.offsets]),
        (spark / COMMITS, [str(n) for n in dropped.commits]),
        (sink, [f"{n}.json" for n in dropped.records]),
    ):
        for name in names:
            remove(folder / name)
            remove(folder / f".{name}.crc")
        if names:
            sync_directory(folder)
    for batch in logged & frozenset(dropped.offsets):
        for path in round_log.lanes(checkpoint, batch + 1):
            remove(path)
    if logged:
        _remove_open_epoch(spark, (offsets | torn_offsets) & logged - commits)
    metadata = spark / "metadata"
    if metadata.exists() and not _is_json_lines(metadata):
        remove(metadata)  # holds only the id of the query: Spark makes a new one
    if records:
        _remove_late_snapshots(spark / STATE, (sink / f"{max(records)}.json"))
    return dropped


def _remove_open_epoch(spark: Path, epochs: frozenset[int]) -> None:
    """Removes the offsets of epochs that are not committed: the round log says how to make them again."""
    for batch in epochs:
        remove(spark / OFFSETS / str(batch))
        remove(spark / OFFSETS / f".{batch}.crc")
    if not (spark / OFFSETS).is_dir():
        return
    sync_directory(spark / OFFSETS)
    if not any(name.isdigit() for name in os.listdir(spark / OFFSETS)):  # a first batch must find no state
        shutil.rmtree(spark / STATE, ignore_errors=True)


def _remove_late_snapshots(state: Path, record: Path) -> None:
    """Removes state snapshots that are newer than the last sync, if deltas give the same state.

    Spark writes snapshots in the background, between batches.
    """
    if not record.exists():
        return
    synced_ns = record.stat().st_mtime_ns
    for path in state.glob("*/*/*.snapshot"):
        deltas = {int(p.stem) for p in path.parent.glob("[0-9]*.delta") if p.stem.isdigit()}
        others = {int(p.stem) for p in path.parent.glob("[0-9]*.snapshot") if p != path and p.stem.isdigit()}
        if not path.stem.isdigit() or path.stat().st_mtime_ns <= synced_ns:
            continue
        version = int(path.stem)
        base = max((v for v in others if v < version), default=0)
        if all(v in deltas for v in range(base + 1, version + 1)):
            remove(path)


def _numbered(folder: Path) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the batches in one of Spark's logs: those with a whole file and those with a torn file."""
    whole: set[int] = set()
    torn: set[int] = set()
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.isdigit():
            (whole if _is_json_lines(folder / name) else torn).add(int(name))
    return frozenset(whole), frozenset(torn)


def _is_json_lines(path: Path) -> bool:
    """Checks whether a file of Spark's logs is whole: a line with the version, then lines of JSON.

    The metadata file has no version line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        body = lines[1:] if lines and lines[0].startswith("v") else lines
        for line in body:
            if line != "-":  # a source without an offset yet
                json.loads(line)
    except (UnicodeDecodeError, ValueError):
        return False
    return bool(body)

"""What a start finds of Spark's logs and the sink log, held against each other: what a power cut tore is dropped, or
the run is refused.

A batch n goes through four steps: Spark writes offset n; its tasks write state n + 1; the sink writes outputs and then
record n; Spark writes commit n. So a kill leaves offset n or n + 1 as the last beside record n. A power cut without
syncs may lose or empty any of these.

    an offset > record + 1, or a commit > record        later batches have no lines: Spark's word for them is dropped,
    they are made again
    offset record + 1 is torn                           nobody acted on it: dropped, and the batch is made anew
    offset of the record is torn or missing             outputs are cut back to an older record, if there is one and all
    of them can be cut
    otherwise                                           DamagedFile, with what to do

Invariant: after `align`, the last offset is that of the last record or the one after it, and no commit is later than
the last record. Cost: a look at four directories, once a start.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from kigen.durable import DamagedFile, remove, sync_directory
from kigen.spark.sink.spark_files import COMMITS, FOLDER, OFFSETS, STATE

_ANEW = "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory"


@dataclass(frozen=True)
class Found:
    """Batches, by number. A file that is empty or torn is in `torn`, and not in the others."""

    offsets: frozenset[int]
    commits: frozenset[int]
    records: frozenset[int]  # of the sink log; a torn one is refused before this
    torn_offsets: frozenset[int] = frozenset()
    torn_commits: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Dropped:
    offsets: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)


class Unaligned(ValueError):
    """Why there is no way to go on."""


def decide(found: Found, can_cut_back: bool) -> Dropped:
    """Pure. What to drop; raises Unaligned. `can_cut_back`: every output can be cut to an older record."""
    newest = max(found.records, default=-1)
    possible = sorted((r for r in found.records if _can_go_on(r, found.offsets)), reverse=True)
    if not found.records or min(found.records) == 0:
        possible.append(-1)  # nothing is older: the run begins again
    what = f"the sink log reaches batch {newest}, and of Spark's offsets {_named(found.offsets)} can be read"
    if not possible:
        raise Unaligned(f"{what}; the records of the sink log that are left fit none of them")
    record = possible[0]
    if record != newest and not can_cut_back:
        raise Unaligned(f"{what}; rows of later batches went to other nodes, which cannot be taken back")
    return Dropped(
        sorted(
            n for n in found.offsets | found.torn_offsets if n > record + 1 or (n > record and n in found.torn_offsets)
        ),
        sorted(n for n in found.commits | found.torn_commits if n > record or n in found.torn_commits),
        sorted(n for n in found.records if n > record),
    )


def _can_go_on(record: int, offsets: frozenset[int]) -> bool:
    """Spark reads its last offset and the one before it: those of this batch and a neighbour, or the very first."""
    return record in offsets and (record == 0 or record - 1 in offsets or record + 1 in offsets)


def _named(batches: frozenset[int]) -> str:
    return f"those of batches {min(batches)} to {max(batches)}" if batches else "none"


def align(checkpoint: Path, can_cut_back: bool) -> Dropped:
    """Before Spark and the outputs are opened. Raises DamagedFile."""
    spark, sink = checkpoint / FOLDER, checkpoint / "sink"
    if not spark.is_dir():
        return (
            Dropped()
        )  # nothing to hold the sink log against: should there be a record, Spark's first batch will not fit it
    offsets, torn_offsets = _numbered(spark / OFFSETS)
    commits, torn_commits = _numbered(spark / COMMITS)
    records = frozenset(int(path.stem) for path in sink.glob("[0-9]*.json"))
    try:
        dropped = decide(Found(offsets, commits, records, torn_offsets, torn_commits), can_cut_back)
    except Unaligned as error:
        raise DamagedFile(
            str(spark / OFFSETS), f"{error}. A power cut does this under durability = process", _ANEW
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
    metadata = spark / "metadata"
    if metadata.exists() and not _is_json_lines(metadata):
        remove(metadata)  # the query's id, which nothing else names: Spark makes a new one
    if records:
        _drop_late_snapshots(spark / STATE, (sink / f"{max(records)}.json"))
    return dropped


def _drop_late_snapshots(state: Path, record: Path) -> None:
    """Spark snapshots its state beside the batches, so such a file may be younger than the last sync. The deltas give
    the same."""
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
    """The batches of a log of Spark, whole and torn."""
    whole: set[int] = set()
    torn: set[int] = set()
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.isdigit():
            (whole if _is_json_lines(folder / name) else torn).add(int(name))
    return frozenset(whole), frozenset(torn)


def _is_json_lines(path: Path) -> bool:
    """Whether a file of Spark's logs is whole: a line with its version, then lines of JSON; the metadata has only
    JSON."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        body = lines[1:] if lines and lines[0].startswith("v") else lines
        for line in body:
            if line != "-":  # a source without an offset yet
                json.loads(line)
    except (UnicodeDecodeError, ValueError):
        return False
    return bool(body)

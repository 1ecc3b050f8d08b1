"""Recovers the segments of a queue after a restart: states and blocks in the order of writing. A torn tail is cut off.

Only the last segment can be torn, and only at its end. Therefore payloads are read and checked only there; in the other
segments the heads suffice. A kill tears the last unit. A power cut may leave any part of what was written since the
last sync: a damaged record, and complete ones after it whose sync count says that no sync came in between. Other damage
that is followed by complete records is an error, unless `repair` accepts the loss of everything after it. If a cut were
ever wrong, the numbers of producers and readers would no longer match, and they would raise an error. Cost: one small
read per block, plus the bytes of the last segment.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import remove
from kigen.queue.errors import CorruptLog
from kigen.queue.record import MAGIC, SIZE, STATE, Record, padding, syncs_of, unpack
from kigen.queue.segment import Segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record in a segment: a state, or a block and the position of its payload."""

    record: Record
    segment: Segment
    position: int
    state: dict[str, Any] | None = None


@dataclass
class Recovered:
    """All records and segments that a restart can use."""

    records: list[FoundRecord] = field(default_factory=list)  # from all segments, in the order of writing
    segments: list[Segment] = field(default_factory=list)
    cut_bytes: int = 0  # torn off the tail


def recover(folder: Path, repair: bool = False) -> Recovered:
    """Reads all segments of a folder, cuts a torn tail and returns the rest."""
    found = Recovered()
    paths = _without_gaps(Segment.existing(folder))
    for place, (number, path) in enumerate(paths):
        segment = Segment(path, number)
        last = place == len(paths) - 1
        good, syncs = _walk(segment, found, last)
        segment.syncs = syncs
        whole = good == segment.size
        if not whole:
            _may_cut(segment, good, last, repair, syncs)
            found.cut_bytes += segment.size - good
            segment.cut(good)
        if good:
            found.segments.append(segment)
        else:
            segment.delete()
        if not whole and not last:  # repair: segments after the damage do not continue what is left
            for _, later in paths[place + 1 :]:
                found.cut_bytes += later.stat().st_size
                remove(later)
            break
    if found.cut_bytes:
        _log.warning("%s: cut off %d bytes of an unfinished write", folder, found.cut_bytes)
    return found


def _without_gaps(paths: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    """Removes segments before a missing one, and returns the others.

    Segments are deleted from the front when nobody needs them. Those before a missing one were deleted, too, and a
    power cut restored them.
    """
    for place in range(len(paths) - 1, 0, -1):
        if paths[place][0] != paths[place - 1][0] + 1:
            for _, old in paths[:place]:
                remove(old)
            return paths[place:]
    return paths


def _walk(segment: Segment, found: Recovered, check_payloads: bool) -> tuple[int, int]:
    """Adds the complete units of a segment to `found`. Returns the position after the last of them, and its sync
    count.
    """
    good = syncs = 0
    unit: list[FoundRecord] = []
    for record, position in _records(segment, check_payloads):
        state = json.loads(segment.read(position, record.length)) if record.kind == STATE else None
        unit.append(FoundRecord(record, segment, position, state))
        if record.more:
            continue
        found.records += unit
        segment.end = max([segment.end, *(f.record.end for f in unit if f.state is None)])
        good = position + record.length + padding(record.length)
        syncs = syncs_of(segment.read(position - SIZE, SIZE))
        unit = []
    return good, syncs


def _records(segment: Segment, check_payloads: bool) -> Iterator[tuple[Record, int]]:
    at = 0
    while at < segment.size:
        record = unpack(segment.read(at, SIZE))
        if record is None or at + record.padded > segment.size:
            return
        if (check_payloads or record.kind == STATE) and not _whole(segment, record, at + SIZE):
            return
        yield record, at + SIZE
        at += record.padded


def _whole(segment: Segment, record: Record, position: int) -> bool:
    try:
        segment.payload(position, record.length, record.crc)
    except CorruptLog:
        return False
    return True


def _may_cut(segment: Segment, good: int, last: bool, repair: bool, syncs: int) -> None:
    """Raises CorruptLog unless a kill or a power cut explains the damage, or `repair` accepts it.

    `syncs` is the sync count of the last complete unit.
    """
    if repair or (last and not _whole_record_after(segment, good, syncs)):
        return
    offset = max(segment.end, 0)
    raise CorruptLog(
        f"{segment.path}: damaged at byte {good}, with whole records after it, which no kill or power cut causes. "
        f"Tuples from offset {offset} cannot be read. Restore the file, or open the queue with repair=True and lose "
        "them",
        {"file": str(segment.path), "position": good, "offset": offset},
    )


def _whole_record_after(segment: Segment, good: int, syncs: int) -> bool:
    """Returns whether a finished unit stands after `good`. An unfinished unit may hold complete records, but not its
    last.

    In a queue that syncs, a record counts only if a sync must have come between it and the first record after `good`. A
    unit is written and then synced, so a power cut may leave a tail of records with the sync count of the last complete
    unit (`syncs`) or one more.
    """
    tail = segment.read(good, segment.size - good)
    first = unpack(tail[:SIZE])
    unit_open = (
        first is not None and first.more and good + first.padded <= segment.size and _whole(segment, first, good + SIZE)
    )
    at = tail.find(MAGIC, 1)
    while at >= 0:
        record = unpack(tail[at : at + SIZE])
        counts = record is not None and good + at + record.padded <= segment.size and not (unit_open and record.more)
        if record is not None and counts and _whole(segment, record, good + at + SIZE):
            written = syncs_of(tail[at : at + SIZE])
            if not written or not _unsynced(syncs, written):
                return True
        at = tail.find(MAGIC, at + 1)
    return False


def _unsynced(before: int, written: int) -> bool:
    """Returns whether no sync need have come between a record with sync count `before` and one with `written`."""
    return written in (before, before % 255 + 1)

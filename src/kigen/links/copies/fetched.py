"""Fetches copies of the other replica's files. Only files that changed since the previous copy are transferred.

A copy is built in its own folder and completed by the list of its files, `copied.json`. Without the list, or with a
file of another length than listed, there is no copy. Invariant: a completed copy equals one that the other side made:
every file has the digest that it had there, and is synced if requested. The previous copy stays unchanged (unchanged
files are links into it). File names come from the other side, so they are checked: none leaves the folder. Cost: one
call per 4 MB, and one hard link per unchanged file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kigen.durable import WrittenFile, replace, sync_directory, sync_file
from kigen.links.copies.offered import PIECES_BYTES, digest_of
from kigen.links.flight.client import Link
from kigen.queue.errors import BadRequest
from kigen.queue.payload import unpack

LIST = "copied.json"
_AT_ONCE = 500  # pieces per request
_MOST_FILES = 200_000
Files = list[tuple[str, int, str]]


@dataclass(frozen=True)
class Fetched:
    """Result of a fetch."""

    files: int  # in the copy
    changed: int  # files that were transferred
    sent_bytes: int  # transferred, compressed or not
    plain_bytes: int  # the same before compression
    info: dict[str, Any]  # what the maker of the copy says about it


def fetch(
    link: Link,
    number: int,
    before: Path | None,
    target: Path,
    compress: str,
    stopped: Callable[[], bool],
    sync: bool = True,
) -> Fetched | None:
    """Fetches copy `number` into `target`. Returns None if it was stopped.

    Raises what the link raises; `target` is then unusable.
    """
    answer = link.connection.call("copy_list", copy=number)
    files = checked(answer.get("files"))
    digests = _digests(answer.get("digests"), len(files))
    old = {} if before is None else {path: (size, stamp) for path, size, stamp in _listed(before)}
    changed = []
    for place, (path, size, stamp) in enumerate(files):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        if before is not None and old.get(path) == (size, stamp):
            os.link(before / path, target / path)
        else:
            changed.append((place, path, size))
    sent = plain = 0
    for asked in _requests(changed):
        if stopped():
            return None
        pieces = [[place, first, end] for place, _, first, end in asked]
        data = link.connection.call_bytes("copy_pieces", copy=number, pieces=pieces, compress=compress)
        sent, found = sent + len(data), unpack(data)
        if len(found) != sum(end - first for _, _, first, end in asked):
            raise BadRequest("the pieces of a copy have another length than requested")
        plain += len(found)
        at = 0
        for _, path, first, end in asked:
            with WrittenFile(target / path, keep=first) as file:
                file.write(found[at : at + end - first])
            at += end - first
    _finish(target, [(path, digests[place]) for place, path, _ in changed], sync)
    replace(target / LIST, json.dumps({"files": files, "told": answer["told"], "digests": digests}).encode(), sync)
    return Fetched(len(files), len(changed), sent, plain, answer["told"])


def _finish(target: Path, changed: list[tuple[str, str]], sync: bool) -> None:
    """Verifies that the transferred files have the right digests, and syncs them."""
    for path, digest in changed:
        if digest_of(target / path) != digest:
            raise BadRequest(
                f"{path} of a copy differs from that of the other replica: it was damaged in transit: fetch it again"
            )
        if sync:
            sync_file(target / path)
    if sync:
        for folder, _, _ in os.walk(target):
            sync_directory(folder)


def intact(copy: Path) -> bool:
    """Returns whether every file of a completed copy still has the content that was fetched.

    Costs one read of all files. A copy without digests comes from an older version and counts as intact.
    """
    try:
        listed = json.loads((copy / LIST).read_bytes())
        digests = listed.get("digests")
        return digests is None or all(
            digest_of(copy / path) == digest
            for (path, _, _), digest in zip(checked(listed["files"]), digests, strict=True)
        )
    except (OSError, ValueError, KeyError):
        return False


def _digests(value: Any, count: int) -> list[str]:
    if not isinstance(value, list) or len(value) != count or not all(isinstance(digest, str) for digest in value):
        raise BadRequest(
            "the list of a copy needs one digest per file: both replicas must run the same version of Kigen"
        )
    return value


def copy_info(copy: Path, whole: bool = True) -> dict[str, Any] | None:
    """Returns the info of a copy, or None if there is no copy or (`whole`) files are missing or have another length."""
    try:
        if whole and any((copy / path).stat().st_size != size for path, size, _ in _listed(copy)):
            return None
        info: dict[str, Any] = json.loads((copy / LIST).read_bytes())["told"]
    except (OSError, ValueError, KeyError):
        return None
    return info


def checked(files: Any) -> Files:
    """Returns the list of files if it is valid and every file lies below the folder."""
    if not isinstance(files, list) or len(files) > _MOST_FILES:
        raise BadRequest("the list of a copy is missing or too long")
    return [_checked(file) for file in files]


def _checked(file: Any) -> tuple[str, int, str]:
    if not isinstance(file, list) or [type(value) for value in file] != [str, int, str] or file[1] < 0:
        raise BadRequest("a file of a copy: path, size and stamp are required")
    path = str(file[0])
    parts = path.split("/")
    wrong = (
        any(part in ("", ".", "..") for part in parts)
        or "\\" in path
        or "\0" in path
        or PurePosixPath(path).is_absolute()
    )
    if wrong or len(parts) < 2:
        raise BadRequest(f"a file of a copy has the path {path!r}: a path below the folder of the copy is required")
    return path, int(file[1]), str(file[2])


def _listed(copy: Path) -> Files:
    return checked(json.loads((copy / LIST).read_bytes())["files"])


def _requests(changed: list[tuple[int, str, int]]) -> Iterator[list[tuple[int, str, int, int]]]:
    """Yields what to request at once: (index, path, first, end). Small files are grouped, large ones are split."""
    asked: list[tuple[int, str, int, int]] = []
    room = PIECES_BYTES
    for place, path, size in changed:
        first = 0
        while True:
            end = min(size, first + room)
            asked.append((place, path, first, end))
            room -= end - first
            if room == 0 or len(asked) == _AT_ONCE:
                yield asked
                asked, room = [], PIECES_BYTES
            first = end
            if first == size:
                break
    if asked:
        yield asked

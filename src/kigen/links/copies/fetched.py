"""Copies of the other replica's files, the side that fetches: only what changed since the copy before travels.

A copy grows in a folder of its own and is finished by the list of its files, `copied.json`: without it, or with a file
that is not as long as it says, there is no copy. Invariant: a finished copy is one that the other side made, whole,
each file with the digest that it had there, and synced if asked for; the copy before is left as it is (unchanged files
are links into it). Names of files come from the other side, so they are checked: none leaves the folder. Cost: a call a
4 MB and a link a file that did not change.
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
_AT_ONCE = 500  # pieces of a request
_MOST_FILES = 200_000
Files = list[tuple[str, int, str]]


@dataclass(frozen=True)
class Fetched:
    files: int  # in the copy
    changed: int  # of them
    sent_bytes: int  # that travelled as pieces, compressed or not
    plain_bytes: int
    told: dict[str, Any]


def fetch(
    link: Link,
    number: int,
    before: Path | None,
    target: Path,
    compress: str,
    stopped: Callable[[], bool],
    sync: bool = True,
) -> Fetched | None:
    """None: it was stopped. Raises what the link raises; `target` is then worth nothing."""
    answer = link.connection.call("copy_list", copy=number)
    files = checked(answer.get("files"))
    digests = _digests(answer.get("digests"), len(files))
    old = {} if before is None else {path: (size, mark) for path, size, mark in _listed(before)}
    changed = []
    for place, (path, size, mark) in enumerate(files):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        if before is not None and old.get(path) == (size, mark):
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
            raise BadRequest("pieces of a copy that are not as long as they should be")
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
    """What came is what was sent, and is on the disk."""
    for path, digest in changed:
        if digest_of(target / path) != digest:
            raise BadRequest(
                f"{path} of a copy is not what the other replica has: it was damaged on the way; it is fetched again"
            )
        if sync:
            sync_file(target / path)
    if sync:
        for folder, _, _ in os.walk(target):
            sync_directory(folder)


def intact(copy: Path) -> bool:
    """Whether every file of a finished copy is still what was fetched. Costs a read of all of them; one without digests
    is older, and counts."""
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
            "a digest for each file of a copy is required: both replicas must run the same version of Kigen"
        )
    return value


def copy_info(copy: Path, whole: bool = True) -> dict[str, Any] | None:
    """What its maker said of a copy; None if it is none, or (`whole`) does not hold everything any more."""
    try:
        if whole and any((copy / path).stat().st_size != size for path, size, _ in _listed(copy)):
            return None
        told: dict[str, Any] = json.loads((copy / LIST).read_bytes())["told"]
    except (OSError, ValueError, KeyError):
        return None
    return told


def checked(files: Any) -> Files:
    """The list, if it is one, and every file lies below the folder."""
    if not isinstance(files, list) or len(files) > _MOST_FILES:
        raise BadRequest("a list of files is required")
    return [_checked(file) for file in files]


def _checked(file: Any) -> tuple[str, int, str]:
    if not isinstance(file, list) or [type(value) for value in file] != [str, int, str] or file[1] < 0:
        raise BadRequest("a file of a copy: its path, its size and its mark are required")
    path = str(file[0])
    parts = path.split("/")
    wrong = (
        any(part in ("", ".", "..") for part in parts)
        or "\\" in path
        or "\0" in path
        or PurePosixPath(path).is_absolute()
    )
    if wrong or len(parts) < 2:
        raise BadRequest(f"a file of a copy is called {path!r}: a path below its folder is required")
    return path, int(file[1]), str(file[2])


def _listed(copy: Path) -> Files:
    return checked(json.loads((copy / LIST).read_bytes())["files"])


def _requests(changed: list[tuple[int, str, int]]) -> Iterator[list[tuple[int, str, int, int]]]:
    """What to ask for at once: (place, path, first, end), small files together, large ones in parts."""
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

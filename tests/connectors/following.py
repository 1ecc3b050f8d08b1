"""Writes files as programs do that are followed: in pieces, with rotation, truncation and files that appear."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.follow import visits as visits_module
from kigen.connectors.follow.follower import Follower
from kigen.connectors.follow.visits import Visits, shared_visits
from kigen.connectors.registry import open_source
from kigen.connectors.source_base import LiveSource, Range
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Column, Type

HEADER = "id,note,ts\n"
SCHEMA = (Column("id", Type.BIGINT), Column("note", Type.STRING), Column("ts", Type.TIMESTAMP))


def stream_of(kind: str, path: str, **options: object) -> SourceStream:
    given = (("path", path), ("follow", True), *options.items())
    return SourceStream("s", SCHEMA, Connector(kind, given), timestamp=2)


class Writer:
    """Writes numbered records. `text` is the record of a number, with quoted line ends now and then."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.random = kind, random.Random(seed)
        self.count = 0  # records begun
        self.rest: dict[Path, bytes] = {}  # of a record that is half written

    def record(self) -> bytes:
        number = self.count
        self.count += 1
        ts = f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.{number // 3600:06d}Z"
        if self.kind == "jsonl":
            return f'{{"id": {number}, "note": "n{number}", "ts": "{ts}"}}\n'.encode()
        note = f'"two\nlines {number}"' if self.random.random() < 0.2 else f"n{number}"
        return f"{number},{note},{ts}\n".encode()

    def append(self, path: Path, records: int, torn: bool = False) -> None:
        """Appends whole records; with `torn`, only the beginning of the last one."""
        data = self.rest.pop(path, b"")
        if not path.exists() and self.kind == "csv":
            data = HEADER.encode() + data
        data += b"".join(self.record() for _ in range(records))
        cut = len(data)
        if torn and records:
            cut -= self.random.randint(1, 12)
            self.rest[path] = data[cut:]
        with open(path, "ab") as file:
            file.write(data[:cut])

    def rename(self, path: Path, target: Path) -> None:
        os.replace(path, target)
        if path in self.rest:
            self.rest[target] = self.rest.pop(path)

    def copy_and_truncate(self, path: Path, target: Path) -> None:
        shutil.copyfile(path, target)
        os.truncate(path, 0)
        if self.kind == "csv":
            path.write_bytes(HEADER.encode())


def write_parquet(path: Path, numbers: range, group: int = 7) -> None:
    ts = pa.array([1_767_225_600_000_000 + n * 1_000_000 for n in numbers], pa.timestamp("us"))
    table = pa.table({"id": pa.array(list(numbers), pa.int64()), "note": [f"n{n}" for n in numbers], "ts": ts})
    pq.write_table(table, path.with_suffix(".tmp"), row_group_size=group)
    os.replace(path.with_suffix(".tmp"), path)


class Followed:
    """A followed stream whose follower is polled by hand, with a clock of its own."""

    def __init__(self, stream: SourceStream, directory: Path, checkpoint: Path, positions: object = None) -> None:
        self.source = open_source(stream, str(directory), False, 0, str(checkpoint))
        assert isinstance(self.source, LiveSource)
        self.source.resume(positions or {0: None})  # type: ignore[arg-type]
        self.follower: Follower = self.source._follower()  # type: ignore[attr-defined]
        self.reader = open_source(stream, str(directory), False, 0, str(checkpoint))
        self.now_us = 1_000_000

    def poll(self, most: int = 1000, after_us: int = 300_000) -> None:
        """Polls until nothing is left to do. After the usual time, a directory is listed the next time."""
        for _ in range(most):
            self.now_us += 1000
            if not self.follower.poll(self.now_us):
                break
        self.now_us += after_us

    @property
    def end(self) -> int:
        return self.follower.path.end

    def range(self, first: int, end: int) -> Range:
        return Range("s", {"index": first}, {"index": end, "parts": self.follower.path.parts(first, end)})

    def ids(self, first: int, end: int) -> list[int]:
        return [] if first == end else self.reader.read(self.range(first, end)).table.column("c0").to_pylist()


def restart() -> None:
    """Forgets what a process knows of visits."""
    visits_module._SHARED.clear()


__all__ = ["Followed", "Visits", "Writer", "restart", "shared_visits", "stream_of", "write_parquet"]

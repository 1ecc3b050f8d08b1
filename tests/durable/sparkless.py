"""Imitates the parts of Spark that the sink sees: an offset log, state files and a commit log, synced (by our file
system class) or not.

The stream is the numbers from 0 on. An offset says where its batch begins and ends. The length of a batch is random
each time it is planned, so a batch that is planned twice differs. State n holds where batch n begins, and must exist
when batch n runs.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.durable import disk, make_directories, sync_directory
from kigen.spark.operator import result_rows
from kigen.spark.operator.result_rows import Spool
from kigen.spark.sink.batch_sink import BatchSink


class StateLost(Exception):
    """Spark's clear error for a state file that is missing or torn."""


class Frame:
    """The parts of a DataFrame that the sink uses."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.table(dict(zip(result_rows.COLUMNS, zip(*self._rows, strict=True), strict=True)))


def frame(batch: int, first: int, end: int, finished: bool = False) -> Any:
    never = pa.array([None] * (end - first), pa.int64())
    columns = {
        "c0": list(range(first, end)),
        "_from": list(range(first, end)),
        "_to": never,
        "_holder": never,
        "_arrived": list(range(first, end)),
    }
    payload, _ = Spool("").pack(pa.table(columns))
    note = {
        "admitted_us": 0,
        "counts": {"q": {"in": end - first, "late": 0}},
        "finished": finished,
        "next_event_us": None,
        "positions": {"s": {"byte": end}},
        "skipped": {},
        "shed": {},
        "dropped": {},
        "kept": {},
        "done_us": 0,
        "arrivals": {"s": [[0, end - first]]},
    }
    return Frame(
        [
            ("task0", batch, "q", "lines", payload, None),
            ("task0", batch, None, "step", None, json.dumps(note)),
            ("task0", batch, None, "chunk", None, None),
        ]
    )


def rename_into(path: Path, text: str, sync: bool) -> None:
    """Writes a file as Spark does, with our file system class (`sync`) or with its own."""
    make_directories(path.parent, sync)
    temporary = path.with_name(f".{path.name}.tmp")
    fd = disk().open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    data, done = text.encode(), 0
    while done < len(data):  # a full disk accepts a part and refuses the rest
        done += disk().write_at(fd, [data[done:]], done)
    if sync:
        disk().sync(fd)
    disk().close(fd)
    disk().rename(temporary, path)
    if sync:
        sync_directory(path.parent)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit()) if folder.is_dir() else []


class Query:
    """A streaming query on a checkpoint."""

    def __init__(self, checkpoint: Path, sink: BatchSink, rng: random.Random, total: int) -> None:
        self._spark, self._sink, self._rng, self._total = checkpoint / "spark", sink, rng, total

    def run(self) -> None:
        """Runs all batches to the end."""
        offsets = _numbers(self._spark / "offsets")
        batch, first = 0, 0
        if offsets:
            batch = offsets[-1]
            start, end = self._offset(batch)
            assert batch == 0 or batch - 1 in offsets, "Spark reads the offset before"
            if batch in _numbers(self._spark / "commits"):
                batch, first = batch + 1, end
            else:
                self._step(batch, start, end)
                batch, first = batch + 1, end
        while first < self._total:
            end = min(self._total, first + self._rng.randrange(1, 12))
            rename_into(
                self._spark / "offsets" / str(batch),
                f"v1\n{{}}\n{json.dumps({'start': first, 'end': end})}",
                self._sink.spark_syncs,
            )
            self._step(batch, first, end)
            batch, first = batch + 1, end

    def _offset(self, batch: int) -> tuple[int, int]:
        value = json.loads((self._spark / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[2])
        return value["start"], value["end"]

    def _step(self, batch: int, first: int, end: int) -> None:
        state = self._spark / "state" / "0" / "0"
        if batch:
            try:
                found = (state / f"{batch}.delta").read_text(encoding="utf-8")
            except FileNotFoundError as error:
                raise StateLost from error
            if found != f"<{first}>":
                raise StateLost(found)
        rename_into(state / f"{batch + 1}.delta", f"<{end}>", self._sink.spark_syncs)
        self._sink(frame(batch, first, end, end == self._total), batch)
        rename_into(self._spark / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}', self._sink.spark_syncs)

"""Queues of one column of ascending numbers, for tests that compare what queues hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kigen.queue import Queue, QueueSettings

SCHEMA = pa.schema([("n", pa.int64())])


def rows(first: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(first, end))}, schema=SCHEMA)


def a_queue(folder: Path, name: str = "q", segment_bytes: int = 4096) -> Queue:
    return Queue(name, SCHEMA, QueueSettings(folder=folder, durable=True, segment_bytes=segment_bytes))


def content(queue: Queue) -> list[int]:
    status = queue.status()
    return (
        [n for b in queue.read(status["start"]).batches() for n in b.column("n").to_pylist()]
        if status["kept_tuples"]
        else []
    )

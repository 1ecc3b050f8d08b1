"""Runs the far side of `kigen bench links`: a queue with its server that produces or consumes on request.

It is a process of its own: `python -m kigen_lab.bench.links.far_side`. All processes of a machine share
CLOCK_MONOTONIC, so a stamp of one can be compared in another.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.links import LinkServer
from kigen.queue import Queue, QueueSettings
from kigen_lab.bench.worker import serve

SCHEMA = pa.schema(
    [("id", pa.int64()), ("room", pa.string()), ("temp", pa.float64()), ("_from", pa.int64()), ("_to", pa.int64())]
)
READER = "far"
_DIFFERENT = 8  # blocks are made before the clock starts


def blocks(tuples: int, different: int = _DIFFERENT, seed: int = 7) -> list[pa.RecordBatch]:
    """Returns readings of rooms with their lifetimes: about 45 bytes per tuple."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(different):
        at = 1_700_000_000_000_000 + (i * tuples + np.arange(tuples)) * 1000
        rooms = pa.array([f"room {n}" for n in rng.integers(0, 50, tuples)], pa.string())
        arrays = [
            pa.array(np.arange(tuples) + i * tuples),
            rooms,
            pa.array(rng.normal(20, 5, tuples)),
            pa.array(at),
            pa.array(at + 10_000_000),
        ]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made


def stamped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the block with the present time in every `id`."""
    now = pa.array(np.full(batch.num_rows, time.monotonic_ns()))
    return pa.RecordBatch.from_arrays([now, *batch.columns[1:]], schema=SCHEMA)


@dataclass
class Side:
    """The queue, its server and the background work."""

    queue: Queue | None = None
    server: LinkServer | None = None
    worker: threading.Thread | None = None
    done_ns: int = 0
    cpu_s: float = 0.0  # CPU time of this process before the work

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        self.close({})
        durable = request["fsync"] is not None
        settings = QueueSettings(
            folder=Path(request["folder"]),
            durable=durable,
            fsync=request["fsync"] if durable else "never",
            memory_bytes=request.get("memory_bytes", 64 << 20),
            max_bytes=256 << 20,
        )
        self.queue = Queue(request["stream"], SCHEMA, settings)
        self.queue.open_reader(READER)
        self.queue.require([READER])
        self.server = LinkServer([self.queue])
        return {"address": str(self.server.address), "token": self.server.security.token}

    def produce(self, request: dict[str, Any]) -> dict[str, Any]:
        """Appends in the background. With `pause_s` between blocks, each is stamped with its time."""
        made = blocks(request["tuples"])
        queue, count, pause_s = self._queue(), request["blocks"], request.get("pause_s", 0.0)

        def work() -> None:
            for i in range(count):
                batch = made[i % len(made)]
                if pause_s:
                    time.sleep(pause_s)
                    batch = stamped(batch)
                queue.append(batch)

        return self._start(work)

    def consume(self, request: dict[str, Any]) -> dict[str, Any]:
        """Reads and acknowledges in the background until that many tuples have arrived."""
        queue, total = self._queue(), request["total"]

        def work() -> None:
            offset = 0
            while offset < total:
                reading = queue.read(offset, wait_s=10.0)
                for batch in reading.batches():
                    assert batch.num_rows
                offset = reading.next
                queue.ack(READER, offset)

        return self._start(work)

    def wait(self, _: dict[str, Any]) -> dict[str, Any]:
        assert self.worker is not None
        self.worker.join()
        return {"done_ns": self.done_ns, "cpu_s": time.process_time() - self.cpu_s, "status": self._queue().status()}

    def close(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.server is not None and self.queue is not None:
            self.server.close()
            self.queue.close()
        self.server = self.queue = None
        return {}

    def _queue(self) -> Queue:
        assert self.queue is not None
        return self.queue

    def _start(self, work: Any) -> dict[str, Any]:
        def timed() -> None:
            work()
            self.done_ns = time.monotonic_ns()

        self.worker = threading.Thread(target=timed, daemon=True)
        started_ns, self.cpu_s = time.monotonic_ns(), time.process_time()
        self.worker.start()
        return {"started_ns": started_ns}


if __name__ == "__main__":
    side = Side()
    serve(
        {"open": side.open, "produce": side.produce, "consume": side.consume, "wait": side.wait, "close": side.close},
        lambda: None,
    )

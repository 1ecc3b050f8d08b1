"""The ingest queue of one pushed stream: takes batches whole, stamps their arrival, and keeps them until no replay
needs them.

Its rows are the stream's columns c0, c1, ..., `_arrived` (microseconds, never decreasing) and `_note`: JSON on the
first row of a batch that has a key or left rows out. SHED is applied before the append: what it removes is counted in
the note, and kept there if it has INTO. Invariant: a batch is acknowledged when it is as durable as
the run's results, and then it is read once, whatever is killed. A repeated batch with the same key is recognised.
Cost: one append per batch, and one sync under durability `power`. Threads: every method may be called from any thread.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.pushed.arrival_clock import ArrivalClock
from kigen.connectors.pushed.batch_keys import LONGEST_KEY, BatchKeys, KnownBatch
from kigen.connectors.pushed.errors import BatchTooLarge, IngestFull, KeyReused, PushRefused
from kigen.connectors.pushed.left_out import LeftOut
from kigen.connectors.source_base import Rows
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, arrow_schema
from kigen.queue import NO_PROGRESS, Queue, QueueFull, QueueSettings

READER = "spark"
KEYS = "keys.jsonl"
MAX_BYTES = 1 << 30
_TRIM_EVERY_S = 1.0
Keeps = Callable[[pa.Table, int], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Pushed:
    """Answer to a push."""

    accepted: int  # tuples taken
    skipped: int = 0  # bad rows left out under ON ERROR SKIP
    repeated: bool = False  # whether the batch was taken before, under the same key
    shed: int = 0  # tuples that SHED removed; not known any more for a repeated batch


def ingest_schema(schema: Schema) -> pa.Schema:
    """Returns the columns of a queue for pushed tuples."""
    columns = [*arrow_schema(schema), pa.field("_arrived", pa.int64()), pa.field("_note", pa.string())]
    return pa.schema(columns)


class IngestQueue:
    """Queue of one stream. One process at a time has it open."""

    def __init__(
        self,
        stream: SourceStream,
        folder: Path,
        clock: Path,
        syncs: bool,
        max_bytes: int = MAX_BYTES,
        keeps: Keeps | None = None,
    ) -> None:
        """Opens or creates the queue `folder`/<stream>. `clock` is the file of the arrival clock. `keeps` decides for
        SHED which tuples of a batch, which arrives at a time, are kept."""
        self.stream, self.max_bytes, self._keeps = stream, max_bytes, keeps
        settings = QueueSettings(folder=folder, durable=True, fsync="always" if syncs else "never", max_bytes=max_bytes)
        self.queue = Queue(stream.name, ingest_schema(stream.schema), settings)
        try:
            self.queue.open_reader(READER)
            self.queue.require([READER])
            self._lock = threading.Lock()
            self._keys = BatchKeys(folder / stream.name / KEYS, syncs)
            status = self.queue.status()
            self._end = int(status["end"])
            self._last_us = max(0, int(status["progress_us"])) if status["progress_us"] != NO_PROGRESS else 0
            self.recent: list[str] = []  # names of messages that the queue held when it was opened
            self._find_keys(int(status["start"]))
            self._clock = ArrivalClock(clock, write=True)
            self._clock.start(self._end)
        except BaseException:
            self.queue.close()
            raise
        # A run that continues reports where it is at its start (`committed`).
        self._done, self._needed, self._trimmed_at = int(status["start"]), int(status["start"]), 0.0
        self.refused = 0  # batches that found no room
        # Rows left out of batches of which nothing was kept: the next batch reports them.
        self._owed = LeftOut()

    def push(self, rows: Rows, key: str | None = None, data: bytes = b"", names: Sequence[str] = ()) -> Pushed:
        """Appends a batch, completely or not at all, and returns when it is durable.

        `data` is what the sender sent: a key may come again only with the same bytes. `names` are those of single
        messages, which a restart finds in `recent`. Raises IngestFull, BatchTooLarge or KeyReused.
        """
        digest = "" if key is None else hashlib.blake2b(data, digest_size=16).hexdigest()
        with self._lock:
            known = None if key is None else self._keys.find(_checked(key))
            if known is not None:
                return self._repeated(known, digest)
            if rows.table.num_rows:
                self._require_room(rows.table.num_rows)
            kept, gone = self._split(rows.table)
            left_out, count = self._owed.with_rows(rows).with_shed(self.stream, gone), kept.num_rows
            if not count:
                self._owed = left_out
                if key is not None:  # known as long as this process lives, like what is owed
                    self._keys.add(KnownBatch(key, digest, self._end, 0, rows.skipped))
                return Pushed(0, rows.skipped, shed=gone.num_rows)
            first = self._append(kept, _note(count, left_out, key, digest, names))
            self._owed = LeftOut()
            if key is not None:
                self._keys.add(KnownBatch(key, digest, first, count, rows.skipped))
            return Pushed(count, rows.skipped, shed=gone.num_rows)

    def _split(self, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Returns what SHED keeps of a batch, and what it removes, with the arrival as `_ts`."""
        arrived_us = max(time.time_ns() // 1000, self._last_us) if self._keeps is not None else 0
        if self._keeps is None or not table.num_rows:
            return table, table.slice(0, 0)
        mask = self._keeps(table, arrived_us)
        gone = table.filter(pa.array(~mask)).select([f"c{i}" for i in range(len(self.stream.schema))])
        arrivals = pa.repeat(pa.scalar(arrived_us, pa.int64()), gone.num_rows)
        return table.filter(pa.array(mask)), gone.append_column("_ts", arrivals)

    def _append(self, table: pa.Table, note: str | None) -> int:
        self._clock.announce(max(time.time_ns() // 1000, self._last_us))
        try:
            stamp = max(time.time_ns() // 1000, self._last_us)
            batch = self._batch(table, stamp, note)
            try:
                done = self.queue.append(batch, progress_us=stamp, wait_s=0.0)
            except QueueFull:
                self._trim()
                done = self.queue.append(batch, progress_us=stamp, wait_s=0.0)
            self._end, self._last_us = done.end, stamp
            return done.first
        except QueueFull as error:
            self.refused += 1
            raise IngestFull(f"stream '{self.stream.name}': the queue is full: {error}") from error
        finally:
            self._clock.finish(self._end)

    def _batch(self, table: pa.Table, stamp: int, note: str | None) -> pa.RecordBatch:
        count, schema = table.num_rows, self.queue.schema
        columns = [table[field.name].combine_chunks() for field in list(schema)[:-2]]
        columns = [c if isinstance(c, pa.Array) else pa.concat_arrays(c.chunks) for c in columns]
        notes = pa.nulls(count, pa.string()) if note is None else pa.array([note] + [None] * (count - 1), pa.string())
        return pa.RecordBatch.from_arrays(
            [*columns, pa.repeat(pa.scalar(stamp, pa.int64()), count), notes], schema=schema
        )

    def _require_room(self, count: int) -> None:
        room = self.stream.buffer
        if room is None:
            return
        if count > room:
            raise BatchTooLarge(
                f"stream '{self.stream.name}': a batch of {count:,} tuples does not fit BUFFER {room:,}: "
                "send smaller batches"
            )
        if self._end - self._done + count > room:
            self.refused += 1
            raise IngestFull(
                f"stream '{self.stream.name}': {self._end - self._done:,} tuples wait, and {count:,} more do not fit "
                f"BUFFER {room:,}: try again later"
            )

    def _repeated(self, known: KnownBatch, digest: str) -> Pushed:
        if known.digest != digest:
            raise KeyReused(
                f"stream '{self.stream.name}': the key {known.key!r} belongs to another batch: a repeated batch must "
                "have the same bytes, and a new batch a new key"
            )
        return Pushed(known.count, known.skipped, repeated=True)

    def committed(self, needed: int | None, done: int | None) -> None:
        """Takes note of what the run has committed: no replay reads before `needed`; all before `done` is processed."""
        with self._lock:
            self._done = max(self._done, self._done if done is None else done)
            self._needed = max(self._needed, self._needed if needed is None else needed)
            if time.monotonic() - self._trimmed_at >= _TRIM_EVERY_S:
                self._trim()

    def _trim(self) -> None:
        self._trimmed_at = time.monotonic()
        self._keys.keep_before(self._needed)
        self.queue.ack(READER, self._needed)

    def _find_keys(self, start: int) -> None:
        """Reads the keys of batches that the queue still holds."""
        at, notes = start, self.queue.schema.get_field_index("_note")
        while at < self._end:
            got = self.queue.read(at, 1 << 16)
            for batch in got.batches():
                column = batch.column(notes)
                for place in column.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                    value = json.loads(column[place].as_py())
                    self.recent += value.get("names", ())
                    if "key" in value:
                        offset = at + place
                        self._keys.add(
                            KnownBatch(value["key"], value["digest"], offset, value["count"], value.get("skipped", 0))
                        )
                at += batch.num_rows

    def status(self) -> dict[str, Any]:
        """Returns what waits and what is kept, for metrics."""
        with self._lock:
            status = self.queue.status()
            return {
                "waiting": self._end - self._done,
                "kept_tuples": status["kept_tuples"],
                "kept_bytes": status["kept_bytes"],
                "taken": self._end,
                "refused": self.refused,
            }

    def close(self) -> None:
        with self._lock:
            self.queue.close()
            self._keys.close()


def _note(count: int, left_out: LeftOut, key: str | None, digest: str, names: Sequence[str]) -> str | None:
    note: dict[str, Any] = {} if key is None else {"key": key, "digest": digest, "count": count}
    note |= left_out.to_json()
    if names:
        note["names"] = list(names)
    return json.dumps(note) if note else None


def _checked(key: str) -> str:
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise PushRefused(f"an idempotency key has 1 to {LONGEST_KEY} printable characters")
    return key

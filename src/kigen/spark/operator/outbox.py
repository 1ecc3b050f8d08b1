"""Collects the results of a step: small results leave as a block in a row, large ones as files for the outputs.

A thread per query encodes large results while the kernel continues. Invariant: the rows that `rows` returns refer only
to finished files. What an abandoned step left in the spool is deleted when a run starts.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache

import pyarrow as pa

from kigen.connectors.encoding import Encoder, Encoding
from kigen.spark.operator.result_rows import Spool

Encoders = dict[str, dict[str, Encoder | None]]  # query -> output -> encoder of its files; None: it takes tables only
OutboxRow = tuple[str, str, bytes | None, str | None]  # query, kind, payload, note


def encode_encoders(encoders: Encoders) -> str:
    return base64.b64encode(pickle.dumps(encoders)).decode()


@lru_cache(maxsize=4)
def decode_encoders(text: str) -> Encoders:
    found: Encoders = pickle.loads(base64.b64decode(text))
    return found


class Outbox:
    """Results of one step.

    Results above `inline_bytes` are large. `encoders` None: the outputs are unknown, so every result leaves as a block.
    """

    def __init__(self, spool: Spool, encoders: Encoders | None, inline_bytes: int) -> None:
        self._spool, self._encoders, self._inline_bytes = spool, encoders, inline_bytes
        self._results: dict[str, _QueryResults] = {}

    def give(self, query: str, table: pa.Table) -> None:
        if query not in self._results:
            unknown: dict[str, Encoder | None] = {"": None}
            outputs = unknown if self._encoders is None else self._encoders.get(query, {})
            self._results[query] = _QueryResults(self._spool, outputs, self._inline_bytes)
        self._results[query].add(table)

    def rows(self) -> Iterator[OutboxRow]:
        """Waits until all files are finished, and yields one row per query."""
        for query, results in self._results.items():
            yield query, *results.close()

    def abandon(self) -> None:
        """Stops the threads after an error."""
        for results in self._results.values():
            results.abandon()


class _QueryResults:
    """Results of one query in one step."""

    def __init__(self, spool: Spool, outputs: dict[str, Encoder | None], inline_bytes: int) -> None:
        self._spool, self._outputs, self._inline_bytes = spool, outputs, inline_bytes
        self._files = {output: spool.new_name() for output, encoder in outputs.items() if encoder is not None}
        self._as_block = None in outputs.values()
        self._tables: list[pa.Table] = []  # tables that may leave as a block, or wait for the thread
        self._bytes = self._rows = 0
        self._pool: ThreadPoolExecutor | None = None
        self._open: list[Encoding] = []
        self._work: list[Future[None]] = []

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        self._bytes += table.nbytes
        self._tables.append(table)
        if self._bytes <= self._inline_bytes:
            return
        if self._files:
            fresh = self._tables if self._pool is None else [table]
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "encode")
                self._work.append(self._pool.submit(self._start))
            self._work += [self._pool.submit(self._encode, one) for one in fresh]
        if not self._as_block:
            self._tables = []

    def close(self) -> tuple[str, bytes | None, str | None]:
        if self._bytes <= self._inline_bytes or (self._as_block and not self._files):
            return "lines", *self._spool.pack(pa.concat_tables(self._tables))
        if self._pool is not None:
            self._work.append(self._pool.submit(self._finish))
            self._pool.shutdown()
            for work in self._work:
                work.result()
        block = self._spool.write(pa.concat_tables(self._tables)) if self._as_block else None
        return "files", None, json.dumps({"rows": self._rows, "files": self._files, "block": block})

    def abandon(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self) -> None:
        self._open = [e.start(str(self._spool.path(self._files[o]))) for o, e in self._outputs.items() if e is not None]

    def _encode(self, table: pa.Table) -> None:
        for encoding in self._open:
            encoding.add(table)

    def _finish(self) -> None:
        for encoding in self._open:
            encoding.finish()

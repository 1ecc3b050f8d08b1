"""Writes result rows to the outputs of a run, and makes the outputs durable.

A small result comes with its row, a large one as files in the spool: each output adopts its own. Invariant: an output
gets the rows of a query in order, except those that it has. Cost: outputs become durable in parallel, since disks are
slow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kigen.connectors import Sink
from kigen.spark.operator.result_rows import Spool

Outputs = dict[str, list[tuple[str, Sink]]]  # query -> (name of the output in the sink log, its sink)
Row = dict[str, Any]  # as Spark's sink gets it: task, query, kind, payload, note
Lacks = Callable[[str], bool]  # whether an output lacks the row that is being written
_DURABLE_AT_ONCE = 8  # outputs that are made durable in parallel


class OutputWriter:
    """The outputs of a run."""

    def __init__(self, outputs: Outputs, checkpoint: str) -> None:
        self._outputs, self._spool = outputs, Spool(checkpoint)
        self.pool = ThreadPoolExecutor(_DURABLE_AT_ONCE, thread_name_prefix="kigen-sink")

    @property
    def sinks(self) -> list[tuple[str, Sink]]:
        return [pair for pairs in self._outputs.values() for pair in pairs]

    def write(self, row: Row, out: dict[str, int], lacks: Lacks | None = None) -> None:
        """Writes the results in a row to the outputs that lack them, and counts them."""
        query = row["query"]
        if row["kind"] == "lines":
            table = self._spool.unpack(row["payload"], row["note"])
            out[query] = out.get(query, 0) + table.num_rows
            for name, sink in self._outputs.get(query, ()):
                if lacks is None or lacks(name):
                    sink.write(table)
        elif row["kind"] == "files":
            note = json.loads(row["note"])
            out[query] = out.get(query, 0) + int(note["rows"])
            self._write_files(query, note["files"], note["block"], lacks)

    def _write_files(self, query: str, files: dict[str, str], block: str | None, lacks: Lacks | None) -> None:
        """Writes a large result: each output adopts its own file. Outputs that take no files get the block."""
        table = None if block is None else self._spool.unpack(None, block)
        for name, sink in self._outputs.get(query, ()):
            if lacks is not None and not lacks(name):
                continue
            if name in files:
                sink.adopt(str(self._spool.path(files[name])))
            else:
                assert table is not None, f"no results for {name}"
                sink.write(table)

    def commit(self, outputs: list[tuple[str, Sink]]) -> dict[str, Any]:
        """Makes outputs durable and returns the sink positions."""
        if len(outputs) == 1:
            return {outputs[0][0]: outputs[0][1].commit()}
        positions = self.pool.map(lambda pair: pair[1].commit(), outputs)
        return dict(zip([name for name, _ in outputs], positions, strict=True))

    def clear(self) -> None:
        """Removes the files of results that an earlier process has not taken."""
        self._spool.clear()

    def drop_spooled(self, rows: list[Row]) -> None:
        """Removes the files to which these rows refer: their results are written."""
        self._spool.drop([name for row in rows for name in _spooled(row)])

    def interrupt(self) -> None:
        """Ends the wait of outputs for room in a queue."""
        for _, sink in self.sinks:
            sink.interrupt()

    def close(self) -> None:
        self.pool.shutdown()
        for _, sink in self.sinks:
            sink.close()


def _spooled(row: Row) -> list[str]:
    """Returns the names of the spool files that a row refers to."""
    if row["kind"] == "files":
        note = json.loads(row["note"])
        return [name for name in (*note["files"].values(), note["block"]) if name is not None]
    return [row["note"]] if row["kind"] == "lines" and row["note"] is not None else []

"""Defines the rows in which results travel from a worker to the sink: small blocks inline, large blocks as files.

The operator returns rows (task, seq, query, kind, payload, note). The kinds are:

- `lines`: a block of one query, in the payload or in the file that the note names.
- `files`: files that are ready for the outputs of a query. The note is JSON: rows, files by output, and a block for
  outputs that take no files.
- `step`: the note of the step (kigen.spark.operator.step_note).
- `chunk`: the snapshot file that the state refers to, if any.
- `error`: the error that ends the run (kigen.spark.operator.error_codec).

A large block would be copied five times on its way through the JVM. As a file under the checkpoint, which all machines
of Spark share, it is written once. Invariant: a file is complete before a row names it, and only the reader of that row
needs it. Files that are left over are deleted when a run starts.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa

SCHEMA = "task string, seq long, query string, kind string, payload binary, note string"
COLUMNS = ["task", "seq", "query", "kind", "payload", "note"]
INLINE_BYTES = 256 << 10

PackedBlock = tuple[bytes | None, str | None]  # payload and note of a row: the block itself, or the name of its file


class Spool:
    """Directory of large blocks below a checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint

    @property
    def _directory(self) -> Path:
        return Path(self._checkpoint) / "spool"

    def pack(self, table: pa.Table) -> PackedBlock:
        """Encodes a small block, or writes a large one to a file."""
        if table.nbytes <= INLINE_BYTES:
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
            return out.getvalue().to_pybytes(), None
        return None, self.write(table)

    def write(self, table: pa.Table) -> str:
        """Writes a block to a file and returns the name of the file."""
        name = self.new_name()
        with pa.OSFile(str(self.path(name)), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        return name

    def new_name(self) -> str:
        return uuid.uuid4().hex

    def path(self, name: str) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory / name

    def unpack(self, payload: bytes | None, note: str | None) -> pa.Table:
        """Returns the block of a row."""
        if payload is not None:
            return pa.ipc.open_stream(payload).read_all()
        assert note is not None
        with pa.memory_map(str(self._directory / note)) as file:
            return pa.ipc.open_stream(file).read_all()

    def drop(self, names: list[str]) -> None:
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

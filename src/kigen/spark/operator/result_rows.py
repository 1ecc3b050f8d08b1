"""Result lines on their way from a worker to the sink: small blocks as rows of Spark, large ones as files that a row
names.

Rows out of the operator are (task, seq, query, kind, payload, note): kind `lines` carries a block of one query, `files`
names files that are ready for its outputs (JSON: rows, files by output, and a block for outputs that take no files),
`step` carries the step's note (JSON), `error` what ended the run (kigen.spark.operator.error_codec). A large block
would be copied five times on its way through the JVM; as a file under the checkpoint (which all of Spark's machines
share) it is written once. Invariant: a file is whole before a row names it, and nobody but that row's reader needs it:
what is left over at a start is deleted.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa

SCHEMA = "task string, seq long, query string, kind string, payload binary, note string"
COLUMNS = ["task", "seq", "query", "kind", "payload", "note"]
INLINE_BYTES = 256 << 10

PackedBlock = tuple[bytes | None, str | None]  # payload and note of a row: the block, or the name of its file


class Spool:
    """The directory of large blocks."""

    def __init__(self, checkpoint: str) -> None:
        self._directory = Path(checkpoint) / "spool"

    def pack(self, table: pa.Table) -> PackedBlock:
        if table.nbytes <= INLINE_BYTES:
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
            return out.getvalue().to_pybytes(), None
        return None, self.write(table)

    def write(self, table: pa.Table) -> str:
        """The block as a file; its name."""
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

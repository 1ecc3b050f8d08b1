"""Result lines as rows of Spark: Arrow blocks of a few MB, since larger rows cost Spark far more than their share.

Rows out of the operator are (task, seq, query, kind, payload, note): kind `lines` carries a block of one query, `step` the step's
note (JSON), `error` what ended the run (kigen.spark.faults).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

SCHEMA = "task string, seq long, query string, kind string, payload binary, note string"
COLUMNS = ["task", "seq", "query", "kind", "payload", "note"]
BLOCK_BYTES = 4 << 20


def encode(table: pa.Table) -> Iterator[bytes]:
    pieces = max(1, -(-table.nbytes // BLOCK_BYTES))
    rows = max(1, -(-table.num_rows // pieces))
    for start in range(0, table.num_rows, rows):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table.slice(start, rows))
        yield out.getvalue().to_pybytes()


def decode(payload: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(payload).read_all()

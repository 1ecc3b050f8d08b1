"""Unknown fields of messages are counted: json, avro and arrow, also beside bad messages."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

COLUMNS = "id BIGINT"
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "other", "type": ["null", "string"]}],
}


def only(source: Any) -> Any:
    return source.read(source.advance(source.initial(), 10**9))


def test_messages(cluster: Any, tmp_path: Path) -> None:
    for n in range(6):
        cluster.send("unknown-json", {"id": n, "x": n, **({"y": "a" if n % 2 else 1} if n < 4 else {})})
    cluster.send("unknown-json", b"no object")
    (tmp_path / "r.avsc").write_text(json.dumps(AVRO))
    for n in range(3):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), {"id": n, "other": "o" if n else None})
        cluster.send("unknown-avro", body.getvalue())
    block, table = io.BytesIO(), pa.table({"id": [1, 2], "z": [1, 2]})
    with pa.ipc.new_stream(block, table.schema) as writer:
        writer.write_table(table)
    cluster.send("unknown-arrow", block.getvalue())
    cluster.flush()
    rows = only(cluster.source("unknown-json", COLUMNS, clauses="ON ERROR SKIP"))
    assert rows.unknown == {"x": 6, "y": 4}
    assert rows.skipped == 1
    avro = cluster.source("unknown-avro", COLUMNS, f"format = 'avro', schema = '{tmp_path}/r.avsc'")
    assert only(avro).unknown == {"other": 2}
    assert only(cluster.source("unknown-arrow", COLUMNS, "format = 'arrow'")).unknown == {"z": 2}

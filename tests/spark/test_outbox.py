"""Large results as files: an output that adopts them holds the same as one that was given the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import Sink, open_sink
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type
from kigen.spark.operator.outbox import Outbox, decode_encoders, encode_encoders
from kigen.spark.operator.result_rows import Spool

SCHEMA = (Column("a", Type.STRING), Column("n", Type.BIGINT))


def table_of(first: int, rows: int) -> pa.Table:
    number = range(first, first + rows)
    values = {"c0": [None if i % 7 == 0 else f"{i % 5}\n" for i in number], "c1": list(number), "_from": list(number)}
    return pa.table({**values, "_to": pa.array([None if i % 3 == 0 else i + 1 for i in number], pa.int64())})


def sinks_on(directory: Path) -> dict[str, Sink]:
    return {
        kind: open_sink(Connector(kind, (("path", f"q.{kind}"),)), SCHEMA, False, str(directory), "q")
        for kind in ("csv", "parquet")
    }


def content(directory: Path) -> tuple[bytes, list[dict[str, Any]]]:
    parts = sorted((directory / "q.parquet").glob("part-*.parquet"))
    return (directory / "q.csv").read_bytes(), pa.concat_tables([pq.read_table(part) for part in parts]).to_pylist()


@pytest.mark.parametrize("inline", [0, 3_000, 1 << 20])
def test_files_are_what_the_tables_are(tmp_path: Path, inline: int) -> None:
    tables = [table_of(0, 50), table_of(50, 1), table_of(51, 300)]
    plain, made = sinks_on(tmp_path / "plain"), sinks_on(tmp_path / "made")
    for sink in (*plain.values(), *made.values()):
        sink.open(None)
        sink.write(table_of(1000, 3))  # what a batch before gave
    for sink in plain.values():
        for table in tables:
            sink.write(table)
    encoders = decode_encoders(encode_encoders({"q": {name: sink.encoder() for name, sink in made.items()}}))
    spool = Spool(str(tmp_path / "ck"))
    box = Outbox(spool, encoders, inline)
    for table in tables:
        box.give("q", table)
    ((query, kind, payload, note),) = box.rows()
    assert (query, kind) == ("q", "lines" if inline == 1 << 20 else "files")
    if kind == "files":
        assert note is not None
        told = json.loads(note)
        assert (told["rows"], told["block"]) == (351, None)
        for name, file in told["files"].items():
            made[name].adopt(str(spool.path(file)))
    else:
        for sink in made.values():
            sink.write(spool.unpack(payload, note))
    for sink in (*plain.values(), *made.values()):
        sink.commit()
        sink.close()
    assert content(tmp_path / "plain") == content(tmp_path / "made")
    assert not list((tmp_path / "ck").rglob("*.*"))


def test_an_output_without_files_gets_the_block(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    box = Outbox(spool, {"q": {"into": None, "output": sinks_on(tmp_path)["csv"].encoder()}}, 100)
    box.give("q", table_of(0, 20))
    box.give("q", table_of(20, 5))
    ((_, kind, _, note),) = box.rows()
    assert kind == "files"
    assert note is not None
    assert spool.unpack(None, json.loads(note)["block"]).num_rows == 25


def test_results_that_nobody_takes_are_counted_only(tmp_path: Path) -> None:
    box = Outbox(Spool(str(tmp_path)), {"q": {}}, 100)
    box.give("q", table_of(0, 20))
    assert list(box.rows()) == [("q", "files", None, json.dumps({"rows": 20, "files": {}, "block": None}))]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "spool").touch()  # no directory can be made here
    box = Outbox(Spool(str(tmp_path)), {"q": {"output": sinks_on(tmp_path)["csv"].encoder()}}, 100)
    box.give("q", table_of(0, 20))
    with pytest.raises(OSError, match="spool"):
        list(box.rows())

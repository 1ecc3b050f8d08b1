"""Tests `FROM kafka` on librdkafka's mock cluster: ranges, replays, formats, bad messages, drains, watching."""

from __future__ import annotations

import io
import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kigen.connectors import InputError, OptionError, Range, Rows
from kigen.connectors.kafka.source import KafkaSource

COLUMNS = "id BIGINT, speed DOUBLE, at TIMESTAMP"
BY_AT = "TIMESTAMP BY at"


def second(n: int) -> str:
    return f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"


def drained(source: KafkaSource, size: int = 10**9) -> tuple[list[Rows], list[Range]]:
    position, rows, pieces = source.initial(), [], []
    while True:
        piece = source.advance(position, size)
        again = Range.from_json(json.loads(json.dumps(piece.to_json())))
        rows.append(source.read(again))
        pieces.append(again)
        position = again.end
        if piece.ended:
            return rows, pieces


def ids(rows: list[Rows]) -> list[int]:
    return [value for part in rows for value in part.table["c0"].to_pylist()]


def fill(cluster: Any, topic: str, count: int) -> None:
    for n in range(count):
        cluster.send(topic, {"id": n, "speed": n / 2, "at": second(n), "more": {"x": 1}}, n % 4)
    cluster.flush()


@pytest.mark.parametrize("size", [1, 7, 100, 10**9])
def test_a_drain_reads_every_message_once(cluster: Any, size: int) -> None:
    topic = f"drain-{size}"
    fill(cluster, topic, 200)
    source = cluster.source(topic, COLUMNS, clauses=BY_AT)
    rows, pieces = drained(source, size)
    assert sorted(ids(rows)) == list(range(200))
    assert all(part.arrivals_us is None for part in rows)
    assert rows[-1].partitions is not None
    assert rows[-1].partitions.idle == {f"{topic}/{p}" for p in range(4)}
    assert source.fraction(pieces[-1].end) == 1.0
    assert source.fraction(pieces[0].start) == 0.0
    again = cluster.source(topic, COLUMNS, clauses=BY_AT)  # another worker, ranges in any order
    for piece, part in list(zip(pieces, rows, strict=True))[::-1][:30]:
        assert again.read(piece).table.equals(part.table)


def test_a_drain_ends_at_the_offsets_found_at_the_start(cluster: Any) -> None:
    fill(cluster, "growing", 40)
    source = cluster.source("growing", COLUMNS, clauses=BY_AT)
    first = source.initial()
    fill(cluster, "growing", 40)
    assert len(ids(drained(source)[0])) == 40
    assert first["ends"] == {f"growing/{p}": 10 for p in range(4)}


def test_partitions_go_forward_together(cluster: Any) -> None:
    for n in range(4000):
        cluster.send("together", {"id": n, "speed": 1.0, "at": second(n % 3600)}, 0 if n < 3000 else 1)
    cluster.flush()
    _, pieces = drained(cluster.source("together", COLUMNS, clauses=BY_AT), 1000)
    for piece in pieces:
        here = piece.end["partitions"]
        assert abs(here["together/0"] - 3 * here["together/1"]) <= 1500


def test_columns_from_elsewhere(cluster: Any) -> None:
    columns = "v STRING, k STRING, n BIGINT, p BIGINT, o BIGINT, t TIMESTAMP, topic STRING, h BIGINT"
    taken = "k = key, n = key, p = partition, o = offset, t = timestamp, topic = topic, h = header.trace"
    cluster.send("places", b"text", 2, key=b"17", timestamp=1_700_000_000_123, headers={"trace": b"9"})
    cluster.send("places", None, 2, key=b"18", timestamp=1_700_000_000_124)
    cluster.flush()
    source = cluster.source("places", columns, f"format = 'raw', columns = '{taken}'")
    table = drained(source)[0][0].table
    rows = table.select([f"c{i}" for i in (0, 1, 2, 3, 4, 6, 7)]).to_pylist()
    assert [list(row.values()) for row in rows] == [
        ["text", "17", 17, 2, 0, "places", 9],
        [None, "18", 18, 2, 1, "places", None],
    ]
    assert table["c5"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, 1_700_000_000_124_000]
    assert table["_ts"].to_pylist() == [1_700_000_000_123_000, 1_700_000_000_124_000], "the broker's timestamp"
    assert table["_partition"].to_pylist() == ["places/2", "places/2"]


def test_csv_and_arrow(cluster: Any) -> None:
    cluster.send("lines", f"1,2.5,{second(1)}\n".encode())
    cluster.send("lines", f"2,,{second(2)}".encode())
    body = io.BytesIO()
    table = pa.table(
        {
            "at": pa.array([10**15, 10**15 + 1], pa.timestamp("us", "UTC")),
            "id": pa.array([7, 8], pa.int32()),
            "other": ["x", "y"],
        }
    )
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    cluster.send("blocks", body.getvalue())
    cluster.send("blocks", body.getvalue(), 1)
    cluster.flush()
    found = drained(cluster.source("lines", COLUMNS, "format = 'csv'", BY_AT))[0][0].table
    assert found["c0"].to_pylist() == [1, 2]
    assert found["c1"].to_pylist() == [2.5, None]
    found = drained(cluster.source("blocks", COLUMNS, "format = 'arrow'", BY_AT))[0][0].table
    assert found["c0"].to_pylist() == [7, 8, 7, 8]
    assert found["c1"].null_count == 4
    assert found["_ts"].to_pylist() == [10**15, 10**15 + 1] * 2
    assert found["_partition"].to_pylist() == ["blocks/0"] * 2 + ["blocks/1"] * 2


POISON = [
    b"",
    b"no",
    b"[1]",
    b'{"id": "x", "at": "2026-01-01T00:00:00Z"}',
    b'{"id": 1}',
    None,
    b'{"id": 1, "at": "soon"}',
    b"\xff",
    b"123",
]


def test_bad_messages_are_named_and_skipped(cluster: Any) -> None:
    for n in range(60):
        cluster.send("poison", {"id": n, "speed": 1.0, "at": second(n)}, n % 2)
        if n % 7 == 3:
            cluster.send("poison", POISON[n // 7], n % 2)
    cluster.send("poison", b'{"id": 60,\n "speed": 1.0, "at": "2026-01-01T00:00:01Z"}')
    cluster.flush()
    rows = drained(cluster.source("poison", COLUMNS, clauses=f"{BY_AT} ON ERROR SKIP"))[0]
    assert sorted(ids(rows)) == list(range(61))
    assert rows[0].skipped == len(POISON)
    assert len(rows[0].errors) == 5
    assert rows[0].errors[0].startswith("stream 's': poison/0:5: field 'at': ") or "poison/" in rows[0].errors[0]
    with pytest.raises(InputError, match=r"poison/\d:\d+") as caught:
        drained(cluster.source("poison", COLUMNS, clauses=BY_AT))
    assert caught.value.line is not None
    for size in (1, 5):
        parts = drained(cluster.source("poison", COLUMNS, clauses=f"{BY_AT} ON ERROR SKIP"), size)[0]
        assert sorted(ids(parts)) == list(range(61))
        assert sum(part.skipped for part in parts) == len(POISON)


def test_markers_of_transactions_are_gaps(cluster: Any) -> None:
    producer = cluster.transactional("markers")
    for n in range(5):
        producer.begin_transaction()
        producer.produce("marked", json.dumps({"id": n, "speed": 1.0, "at": second(n)}).encode(), partition=0)
        producer.commit_transaction(10)
    rows, pieces = drained(cluster.source("marked", COLUMNS, clauses=BY_AT), 3)
    assert ids(rows) == list(range(5))
    assert pieces[-1].end["partitions"]["marked/0"] == 10


def test_a_live_stream_is_watched_and_continues_after_a_restart(cluster: Any) -> None:
    fill(cluster, "live", 8)
    source = cluster.source("live", COLUMNS, clauses=f"{BY_AT} IDLE 1 SECONDS", draining=False)
    first = source.initial()
    source.resume({0: first})
    wait_until(lambda: source.arrived_by(0) == 8)
    assert len(source.arrivals_us(0, 8)) == 8
    piece = source.piece("s", 0, 5, None, False)
    at = source.position(5)
    assert at["partitions"] == piece.end["partitions"]
    assert sum(at["partitions"].values()) == 5
    rows = source.read(piece)
    assert rows.arrivals_us is not None
    assert len(rows.arrivals_us) == 5
    fill(cluster, "live", 8)
    wait_until(lambda: source.arrived_by(0) == 16)
    again = cluster.source("live", COLUMNS, clauses=f"{BY_AT} IDLE 1 SECONDS", draining=False)
    other = source.position(12)
    again.resume({5: json.loads(json.dumps(at)), 12: json.loads(json.dumps(other))})
    wait_until(lambda: again.arrived_by(0) == 16)
    assert again.position(5)["partitions"] == at["partitions"]
    assert again.position(12)["partitions"] == other["partitions"], "every cursor lies on the way"
    rest = again.read(again.piece("s", 5, 16, None, False))
    assert sorted(ids([rows, rest])) == sorted(list(range(8)) * 2)


def test_silent_partitions_become_idle(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    partitions 0, 2, 3   |---- 300 ms ----| idle
    partition 1          |-- 200 ms --|---- 300 ms ----| idle: all are silent
    """
    now_us = [time.time_ns() // 1000]
    monkeypatch.setattr("kigen.connectors.kafka.watcher._now_us", lambda: now_us[0])
    fill(cluster, "silent", 4)
    source = cluster.source("silent", COLUMNS, clauses=f"{BY_AT} IDLE 300 MILLISECONDS", draining=False)
    source.resume({0: source.initial()})
    wait_until(lambda: source.arrived_by(0) == 4)
    at = source.position(4)
    assert not at.get("idle")
    assert not source.wants_step(at)
    now_us[0] += 200_000
    cluster.send("silent", {"id": 9, "speed": 1.0, "at": second(9)}, 1)
    cluster.flush()
    wait_until(lambda: source.arrived_by(0) == 5)
    now_us[0] += 150_000
    at = source.position(5)
    assert at["idle"] == ["silent/0", "silent/2", "silent/3"]
    assert "silence" not in at
    assert source.wants_step(source.position(5) | {"idle": []})
    assert not source.position(4).get("silence"), "a reader that is behind has not heard all"
    now_us[0] += 200_000
    at = source.position(5)
    assert at["silence"][1] == 50_000
    assert not source.wants_step(at)
    now_us[0] += 10_000_000
    assert source.wants_step(at)
    rows = source.read(source.piece("s", 5, 5, None, False))
    assert rows.partitions is not None
    assert rows.partitions.silence is not None
    assert rows.table.num_rows == 0


def test_new_topics_of_a_pattern_are_found(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kigen.connectors.kafka.watcher._TOPICS_S", 0.1)
    fill(cluster, "found-a", 4)
    source = cluster.source("^found-.*", COLUMNS, clauses=BY_AT, draining=False)
    source.resume({0: source.initial()})
    wait_until(lambda: source.arrived_by(0) == 4)
    before = source.position(4)
    fill(cluster, "found-b", 4)
    wait_until(lambda: source.arrived_by(0) == 8)
    piece = source.piece("s", 4, 8, None, False)
    assert set(piece.end["partitions"]) - set(before["partitions"]) == {f"found-b/{p}" for p in range(4)}
    assert sorted(ids([source.read(piece)])) == [0, 1, 2, 3]


def test_start(cluster: Any) -> None:
    for n in range(3):
        cluster.send("begin", {"id": n, "speed": 1.0, "at": second(n)}, 0, timestamp=1_700_000_000_000 + n * 1000)
    cluster.flush()
    assert sum(cluster.source("begin", COLUMNS, "start = 'latest'", BY_AT).initial()["partitions"].values()) == 3
    assert sum(cluster.source("begin", COLUMNS, "start = 'earliest'", BY_AT).initial()["partitions"].values()) == 0


def test_errors_say_what_to_do(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster, "there", 1)
    with pytest.raises(InputError, match=r"topic 'absent' does not exist .*there"):
        cluster.source("absent", COLUMNS, clauses=BY_AT).initial()
    monkeypatch.setattr("kigen.connectors.kafka.source._FIRST_ANSWER_S", 0.5)
    monkeypatch.setattr("kigen.connectors.kafka.cluster._ANSWER_S", 0.5)
    nobody = cluster.source("there", COLUMNS, "config = 'bootstrap.servers = localhost:1'", BY_AT)
    with pytest.raises(InputError, match="no broker answers"):
        nobody.initial()
    with pytest.raises(OptionError, match="is not a column; there are: id, speed, at"):
        cluster.source("there", COLUMNS, "columns = 'x = key'", BY_AT)
    with pytest.raises(OptionError, match="one STRING column"):
        drained(cluster.source("there", COLUMNS, "format = 'raw'", BY_AT))
    with pytest.raises(OptionError, match="is a secret"):
        cluster.source("there", COLUMNS, "config = 'sasl.password = x'", BY_AT).initial()
    with pytest.raises(OptionError, match="KIGEN_NO_SUCH, which is not set"):
        cluster.source("there", COLUMNS, "password_env = 'KIGEN_NO_SUCH'", BY_AT).initial()


def wait_until(check: Any, within_s: float = 120.0) -> None:
    until = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.01)


AVRO = {
    "type": "record",
    "name": "car",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "speed", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "other", "type": "string"},
    ],
}


def avro(n: int, head: bytes = b"") -> bytes:
    body = io.BytesIO()
    row = {"id": n, "speed": None, "at": datetime(2026, 1, 1, 0, 0, n, tzinfo=UTC), "other": "x"}
    fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), row)
    return head + body.getvalue()


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/schemas/ids/7" and self.headers.get("Authorization") == "Basic dTpw"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": json.dumps(AVRO)}).encode() if known else b"{}")

    def log_message(self, *_: Any) -> None:
        pass


def test_avro(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "p")
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    for n in range(3):
        cluster.send("plain-avro", avro(n))
        cluster.send("avro", avro(n, b"\0\0\0\0\x07"))
    cluster.send("avro", avro(3, b"\0\0\0\0\x08"))
    cluster.send("avro", b"{}")
    cluster.send("avro", b"\0\0\0\0\x07\xff")
    cluster.flush()
    one = cluster.source("plain-avro", COLUMNS, f"format = 'avro', schema = '{tmp_path}/car.avsc'", BY_AT)
    table = drained(one)[0][0].table
    assert table["c0"].to_pylist() == [0, 1, 2]
    assert table["c1"].null_count == 3
    assert table["_ts"].to_pylist() == [1_767_225_600_000_000 + n * 1_000_000 for n in range(3)]
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"registry = 'http://127.0.0.1:{server.server_port}', registry_username = 'u', registry_password_env = 'REGISTRY_PASSWORD'"
        rows = drained(cluster.source("avro", COLUMNS, f"format = 'avro', {where}", f"{BY_AT} ON ERROR SKIP"))[0][0]
        server.shutdown()
    assert rows.table["c0"].to_pylist() == [0, 1, 2]
    assert rows.skipped == 3
    assert "the schema registry has no schema 8" in rows.errors[0]
    monkeypatch.setattr("kigen.connectors.kafka.avro._ATTEMPTS", 1)
    away = cluster.source("avro", COLUMNS, f"format = 'avro', {where}", f"{BY_AT} ON ERROR SKIP")
    with pytest.raises(InputError, match="does not give schema 7"):
        drained(away)
    with pytest.raises(OptionError, match="needs option registry"):
        drained(cluster.source("avro", COLUMNS, "format = 'avro'", BY_AT))

"""`--drain` takes Kafka and other logs in step: no stream is read far ahead of the time that the others have reached."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kigen.connectors import Source, open_source
from kigen.plan import bind
from kigen.spark.admission.offsets import LogPosition, take_log_ranges

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 4000  # a second each


def at(n: int) -> str:
    return (START + timedelta(seconds=n)).isoformat()


@pytest.mark.parametrize("bad", [False, True], ids=["good", "some-bad"])
def test_kafka_and_a_file_advance_together(
    cluster: Any, tmp_path: Path, bad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kigen.connectors.kafka.path.PIECE", 100)  # offsets of a partition before the next one's turn
    topic = f"in-step-{bad}"
    for n in range(COUNT):
        cluster.send(topic, {"id": n, "ts": "soon" if bad and n % 50 == 49 else at(n)}, n % 3)
    cluster.flush()
    (tmp_path / "in.csv").write_text("id,ts\n" + "".join(f"{n},{at(n)}\n" for n in range(COUNT)))
    clauses = "TIMESTAMP BY ts" + (" ON ERROR SKIP" if bad else "")
    text = f"""
    CREATE STREAM k (id BIGINT, ts TIMESTAMP) {clauses} FROM kafka (brokers = '{cluster.brokers}', topic = '{topic}');
    CREATE STREAM f (id BIGINT, ts TIMESTAMP) {clauses} FROM csv (path = 'in.csv');
    CREATE QUERY q AS SELECT k.id FROM k [RANGE 1 MINUTE], f [RANGE 1 MINUTE] WHERE k.id = f.id;
    """
    sources: dict[str, Source] = {s.name: open_source(s, str(tmp_path), True, None) for s in bind(text).streams}
    positions: dict[str, LogPosition] = {
        name: {"pos": source.initial(), "ts": None, "ended": False} for name, source in sources.items()
    }
    read = dict.fromkeys(sources, 0)
    batches = 0
    while not all(position["ended"] for position in positions.values()):
        for piece in take_log_ranges(sources, positions, 1600, closing=False):
            rows = sources[piece.stream].read(piece)
            read[piece.stream] += rows.table.num_rows + rows.skipped
        batches += 1
        assert abs(read["k"] - read["f"]) < 600, f"after batch {batches}: {read}"
    assert read == {"k": COUNT, "f": COUNT}
    assert batches >= 5
    for source in sources.values():
        source.close()


def test_without_a_time_by_column_the_broker_says_it(cluster: Any) -> None:
    for n in range(30):
        cluster.send("broker-times", {"id": n}, 0, timestamp=1_700_000_000_000 + n * 1000)
    cluster.flush()
    source = cluster.source("broker-times", "id BIGINT")
    piece = source.advance(source.initial(), 10)
    assert piece.last_ts_us == (1_700_000_000_000 + 10 * 1000) * 1000, "of the message that comes next"
    source.close()

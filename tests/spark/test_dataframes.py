"""DataFrames as streams: batch ones are drained; streaming ones feed a run, and each row is there once over restarts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kigen.engine import ArgumentError, Engine

BATCH = "CREATE QUERY sums AS SELECT k, SUM(n) AS total FROM numbers [ROWS 4] GROUP BY k"
RATE = """
CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT) TIMESTAMP BY timestamp
  FROM spark (format = 'rate-micro-batch', rowsPerBatch = 10, numPartitions = 1, advanceMillisPerBatch = 1000, startTimestamp = 0);
CREATE QUERY all_ticks AS ISTREAM(SELECT value FROM ticks [NOW]) INTO csv (path = 'ticks.csv');
"""


@pytest.mark.timeout(600)
def test_a_batch_dataframe_is_drained(engine: Engine, tmp_path: Path) -> None:
    frame = engine.spark.sql(
        "SELECT id AS n, concat('k', id % 2) AS k, timestamp_seconds(1000 - id) AS ts FROM range(300)"
    )
    result = engine.stream("numbers", frame.repartition(3), "ts").run(text=BATCH, drain=True)
    assert result.report["queries"]["sums"]["in"] == 300
    last = [(r["k"], r["total"]) for r in result.to_arrow("sums").to_pylist() if r["_to"] is None]
    assert sorted(last) == [("k0", 2), ("k1", 4)]
    into = " INTO spark (format = 'json', path = 'out', mode = 'changes')"
    engine.run(text=BATCH + into, base=tmp_path, drain=True, keep_results=False, batch_rows=100)
    changes = engine.spark.read.json(str(tmp_path / "out")).groupBy("_op").count().collect()
    assert {row["_op"] for row in changes} == {"insert", "delete"}
    assert {row["_op"]: row["count"] for row in changes}["insert"] > 250
    with pytest.raises(ArgumentError, match="needs timestamp_by"):
        engine.stream("numbers", frame)
    with pytest.raises(ArgumentError, match=r"column x of the DataFrame for 'odd' has type array<int>: cast it"):
        engine.stream("odd", engine.spark.sql("SELECT array(1) AS x, now() AS ts"), "ts")


@pytest.mark.timeout(600)
def test_a_source_of_spark_feeds_a_run_and_continues(engine: Engine, tmp_path: Path) -> None:
    app = tmp_path / "app.cql"
    app.write_text(RATE, encoding="utf-8")
    ticks = tmp_path / "ticks.csv"
    seen = 0
    for _ in range(2):  # the second run continues from the checkpoint of the first
        run = engine.start(app, checkpoint=tmp_path / "ck", keep_results=False, epoch_s=2)
        try:
            until = time.monotonic() + 200
            while run.active and time.monotonic() < until and len(_values(ticks)) < seen + 40:
                time.sleep(0.1)
        finally:
            run.stop()
        found = _values(ticks)
        assert len(found) >= seen + 40
        assert found == list(range(len(found)))
        seen = len(found)


def _values(file: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in file.read_text().splitlines()[1:]] if file.exists() else []

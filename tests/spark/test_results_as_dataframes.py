"""Results as DataFrames of the format `kigen`: a finished run, a run that goes on, restarts of the reader, errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import kigen.spark
from kigen.engine import Engine

READINGS = "room,temp,ts\n" + "".join(f"r{n % 3},{n},2026-01-01T00:00:{n:02d}Z\n" for n in range(30))
APP = """
CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE QUERY hot AS SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room;
"""
LIVE = """
CREATE STREAM ticks (n BIGINT) FROM synthetic (rate = 50, n = 'sequence', rows = 300);
CREATE QUERY seen AS ISTREAM(SELECT n FROM ticks [NOW]);
"""


def options(path: Path, query: str, **more: str) -> dict[str, str]:
    return {"path": str(path), "query": query, **more}


@pytest.mark.timeout(600)
def test_a_finished_run(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text(READINGS)
    state = tmp_path / "state"
    result = engine.run(text=APP, base=tmp_path, drain=True, checkpoint=state, batch_rows=7, keep_changes_s=600)
    frame = engine.spark.read.format("kigen").options(**options(state, "hot")).load()
    assert frame.columns == ["room", "mean", "_from", "_to"]
    wanted = sorted(map(repr, result.dataframe("hot").collect()))
    assert sorted(map(repr, frame.collect())) == wanted
    other = engine.spark.newSession()  # a session without an engine
    kigen.spark.register(other)
    kigen.spark.register(other)
    assert other.read.format("kigen").options(**options(state, "hot")).load().count() == len(wanted)
    changes = engine.spark.read.format("kigen").options(**options(state, "hot", mode="changes")).load()
    assert changes.columns == ["room", "mean", "_op", "_at"]
    assert changes.where("_op = 'insert'").count() == len(wanted)
    for wrong, message in (
        (options(tmp_path / "none", "hot"), "no checkpoint of a run is here"),
        (options(state, "hat"), "the run has no query 'hat'; did you mean hot"),
        ({"path": str(state)}, "needs the options path"),
    ):
        with pytest.raises(PySparkException, match=message):
            engine.spark.read.format("kigen").options(**wrong).load().collect()


@pytest.mark.timeout(600)
def test_a_stream_of_results_goes_on_and_restarts(engine: Engine, tmp_path: Path) -> None:
    """The reader is stopped and started while the run goes on: every result is there once."""
    state, seen = tmp_path / "state", list[tuple[int, int]]()

    def take(frame: Any, batch: int) -> None:
        rows = [(batch, row["n"]) for row in frame.collect()]
        seen[:] = [kept for kept in seen if kept[0] != batch] + rows  # as a sink does that knows batches

    run = engine.start(text=LIVE, checkpoint=state, keep_changes_s=600, keep_results=False, epoch_s=2)
    try:
        until = time.monotonic() + 300
        while len(seen) < 300 and time.monotonic() < until:
            frame = engine.spark.readStream.format("kigen").options(**options(state, "seen")).load()
            query = (
                frame.writeStream.foreachBatch(take)
                .option("checkpointLocation", str(tmp_path / "reader"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination(60)
    finally:
        run.stop()
    assert sorted(n for _, n in seen) == list(range(300))
    assert len({batch for batch, _ in seen}) > 1

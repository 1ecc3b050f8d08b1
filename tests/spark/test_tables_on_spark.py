"""Tables that change while a run goes on: in rounds, in micro-batches, over a kill, and from DataFrames."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import time
from pathlib import Path

import pytest
from kills import jvm_of
from round_kills import rounds_of, start

from kigen.connectors import InputError
from kigen.engine import Engine
from kigen.engine.errors import ArgumentError

APP = """
CREATE STREAM s (id BIGINT, k STRING) FROM synthetic (rate = 40, seed = 1, duration = '{seconds} s', id = 'sequence',
  k = 'choice(a, b)');
CREATE TABLE t (k STRING, v BIGINT) FROM csv (path = 't.csv') KEY (k) REFRESH EVERY 200 MILLISECONDS;
CREATE QUERY seen AS ISTREAM(SELECT id, v FROM s [NOW] JOIN t ON s.k = t.k);
CREATE QUERY silent AS SELECT t.k, v FROM t ANTI JOIN s [RANGE 1 SECONDS] ON s.k = t.k;
"""


def write(folder: Path, version: int, *more: str) -> None:
    """Replaces the table's file, as a careful writer does."""
    (folder / "new").write_text("\n".join(["k,v", f"a,{version}", f"b,{version}", *more]) + "\n")
    (folder / "new").rename(folder / "t.csv")


def prepared(folder: Path, seconds: int) -> Path:
    write(folder, 1)
    (folder / "app.cql").write_text(APP.format(seconds=seconds), encoding="utf-8")
    return folder / "app.cql"


def check(seen: list[tuple[int, int]], versions: set[int], count: int) -> None:
    """Each tuple meets exactly one version of the table, and later tuples never meet an older one."""
    found = sorted(seen)
    assert [id for id, _ in found] == list(range(count))
    assert [v for _, v in found] == sorted(v for _, v in found)
    assert {v for _, v in found} == versions


@pytest.mark.parametrize("epoch_s", [30.0, 0.0])
def test_a_refresh_takes_effect(engine: Engine, tmp_path: Path, epoch_s: float) -> None:
    run = engine.start(prepared(tmp_path, 6), epoch_s=epoch_s)
    warnings: list[str] = []
    run.notify = warnings.append
    until = time.monotonic() + 60
    while run.progress.queries["seen"].arrived < 40:
        assert time.monotonic() < until
        assert run.active
        time.sleep(0.02)
    write(tmp_path, 2, "z,9")
    while run.progress.queries["seen"].arrived < 120:
        assert run.active
        time.sleep(0.02)
    write(tmp_path, 3, "a,4")  # two rows of one key: the version before stays
    assert run.await_end(120)
    result = run.stop()
    rows = result.to_arrow("seen").to_pylist()
    check([(row["id"], row["v"]) for row in rows], {1, 2}, 240)
    lines = [row for row in result.to_arrow("silent").to_pylist() if row["k"] == "z"]
    assert len(lines) == 1  # born at its refresh, alive until the end
    assert lines[0]["_to"] is None
    assert any("keeps its rows" in text and "KEY (k) = (a)" in text for text in warnings)


@pytest.mark.timeout(400)
def test_a_killed_run_meets_the_same_versions_again(tmp_path: Path) -> None:
    app, output, checkpoint = prepared(tmp_path, 14), tmp_path / "out", tmp_path / "ck"
    with start(app, output, checkpoint) as process:
        until = time.monotonic() + 120
        while not rounds_of(checkpoint):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(2)
        write(tmp_path, 2)
        time.sleep(2)
        jvm = jvm_of(checkpoint)
        process.kill()
        if jvm is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
    write(tmp_path, 3)
    with start(app, output, checkpoint) as again:
        errors = again.communicate(timeout=300)[1]
        assert again.returncode == 0, errors
    with (output / "seen.csv").open() as file:
        rows = [(int(row["id"]), int(row["v"])) for row in csv.DictReader(file)]
    check(rows, {1, 2, 3}, 560)


def test_a_dataframe_is_a_table(engine: Engine, tmp_path: Path) -> None:
    spark = engine.spark
    rooms = spark.createDataFrame([(0, "cellar"), (1, "kitchen"), (2, None)], "n INT, room STRING")
    numbers = spark.sql("SELECT id AS n, timestamp_seconds(id) AS ts FROM range(4)")
    app = "CREATE QUERY q AS SELECT s.n, room FROM numbers [NOW] AS s LEFT JOIN rooms ON s.n = rooms.n"
    with Engine(spark) as joined:
        joined.stream("numbers", numbers, "ts").table("rooms", rooms, key="n")
        found = joined.run(text=app, drain=True).to_arrow("q").sort_by("n")
    assert found["room"].to_pylist() == ["cellar", "kitchen", None, None]
    rooms.write.parquet(str(tmp_path / "rooms"))
    declared = f"CREATE TABLE rooms (n BIGINT, room STRING) FROM spark (format = 'parquet', path = '{tmp_path}/rooms');"
    with Engine(spark) as reading:
        reading.stream("numbers", numbers, "ts")
        found = reading.run(text=declared + app, drain=True).to_arrow("q")
        assert found.sort_by("n")["room"].to_pylist() == ["cellar", "kitchen", None, None]
        with pytest.raises(InputError, match="table 'rooms': Spark cannot read it"):
            reading.run(text=declared.replace("rooms')", "nowhere')") + app, drain=True)
        with pytest.raises(ArgumentError, match="needs a batch DataFrame"):
            reading.table("t", spark.readStream.format("rate").load())

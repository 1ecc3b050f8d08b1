"""Tables that change while a run goes on: in rounds, in micro-batches, over a kill, and from DataFrames."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kills import jvm_of
from round_kills import start

from kigen.connectors import InputError
from kigen.engine import Engine
from kigen.engine.errors import ArgumentError

APP = """
CREATE STREAM s (id BIGINT, k STRING) FROM synthetic (rate = 40, seed = 1, id = 'sequence',
  k = 'choice(a, b)');
CREATE TABLE t (k STRING, v BIGINT) FROM csv (path = 't.csv') KEY (k) REFRESH EVERY 200 MILLISECONDS;
CREATE QUERY seen AS ISTREAM(SELECT id, v FROM s [NOW] JOIN t ON s.k = t.k);
CREATE QUERY silent AS SELECT t.k, v FROM t ANTI JOIN s [RANGE 1 SECONDS] ON s.k = t.k;
"""


def write(folder: Path, version: int, *more: str) -> None:
    """Replaces the table's file, as a careful writer does."""
    (folder / "new").write_text("\n".join(["k,v", f"a,{version}", f"b,{version}", *more]) + "\n")
    (folder / "new").rename(folder / "t.csv")


def prepared(folder: Path) -> Path:
    write(folder, 1)
    (folder / "app.cql").write_text(APP, encoding="utf-8")
    return folder / "app.cql"


def until(there: Callable[[], bool], active: Callable[[], bool]) -> None:
    end = time.monotonic() + 200
    while not there():
        assert active()
        assert time.monotonic() < end
        time.sleep(0.05)


def lines(output: Path) -> list[tuple[int, int]]:
    """Returns the lines of `seen` that are there, without one that is half written."""
    path = output / "seen.csv"
    whole = path.read_text().rpartition("\n")[0].splitlines()[1:] if path.exists() else []
    return [(int(line.split(",")[0]), int(line.split(",")[1])) for line in whole]


def check(seen: list[tuple[int, int]], versions: set[int]) -> None:
    """Each tuple meets exactly one version of the table, and later tuples never meet an older one."""
    found = sorted(seen)
    assert [id for id, _ in found] == list(range(len(found)))
    assert [v for _, v in found] == sorted(v for _, v in found)
    assert {v for _, v in found} == versions


@pytest.mark.timeout(600)
@pytest.mark.parametrize("epoch_s", [30.0, 0.0])
def test_a_refresh_takes_effect(engine: Engine, tmp_path: Path, epoch_s: float) -> None:
    output = tmp_path / "out"
    run = engine.start(prepared(tmp_path), epoch_s=epoch_s, output=output)
    warnings: list[str] = []
    run.notify = warnings.append
    until(lambda: len(lines(output)) > 0, lambda: run.active)
    write(tmp_path, 2, "z,9")
    until(lambda: any(v == 2 for _, v in lines(output)), lambda: run.active)
    write(tmp_path, 9, "a,4")  # two rows of one key: the version before stays
    until(lambda: bool(warnings), lambda: run.active)
    write(tmp_path, 3)
    until(lambda: any(v == 3 for _, v in lines(output)), lambda: run.active)
    until(lambda: "z,9" in (output / "silent.csv").read_text(), lambda: run.active)  # perhaps in another lane
    result = run.stop()
    check([(row["id"], row["v"]) for row in result.to_arrow("seen").to_pylist()], {1, 2, 3})
    born = [row for row in result.to_arrow("silent").to_pylist() if row["k"] == "z"]
    assert [(row["v"], row["_from"] < row["_to"]) for row in born] == [(9, True)], "from its refresh to the next one"
    assert any("keeps its rows" in text and "KEY (k) = (a)" in text for text in warnings)


@pytest.mark.timeout(900)
def test_a_killed_run_meets_the_same_versions_again(tmp_path: Path) -> None:
    app, output, checkpoint = prepared(tmp_path), tmp_path / "out", tmp_path / "ck"
    with start(app, output, checkpoint) as process:
        until(lambda: len(lines(output)) > 40, lambda: process.poll() is None)
        write(tmp_path, 2)
        until(lambda: any(v == 2 for _, v in lines(output)), lambda: process.poll() is None)
        jvm = jvm_of(checkpoint)
        process.kill()
        if jvm is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
    write(tmp_path, 3)
    with start(app, output, checkpoint) as again:
        until(lambda: any(v == 3 for _, v in lines(output)), lambda: again.poll() is None)
        again.send_signal(signal.SIGTERM)
        errors = again.communicate(timeout=200)[1]
        assert again.returncode == 0, errors
    check(lines(output), {1, 2, 3})


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

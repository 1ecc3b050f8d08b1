"""Live streams through Spark: stop and continue, results that expire, and a session that the user brings."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from kigen.engine import Engine, Run

CARS = """CREATE STREAM cars (id BIGINT, speed DOUBLE)
  FROM synthetic (rate = {rate}, seed = 7, id = 'sequence', speed = 'normal(80, 10)');
"""


def await_batches(run: Run, count: int) -> None:
    until = time.monotonic() + 200
    while run.progress.batches < count and run.active and time.monotonic() < until:
        time.sleep(0.05)
    assert run.progress.batches >= count


@pytest.mark.timeout(500)
def test_a_live_run_goes_on_where_it_was_stopped(engine: Engine, tmp_path: Path) -> None:
    app = tmp_path / "cars.cql"
    app.write_text(
        CARS.format(rate=300) + "CREATE QUERY ids AS ISTREAM(SELECT id FROM cars [ROWS 7]);", encoding="utf-8"
    )
    options = {"drain": False, "output": str(tmp_path), "checkpoint": str(tmp_path / "ck"), "keep_results": False}
    for batches in (3, 6):
        run = engine.start(app, **options)
        await_batches(run, batches)
        result = run.stop()
        assert not result.finished
    with (tmp_path / "ids.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(len(rows))), "nothing lost, nothing twice"
    assert [row["_at"] for row in rows] == sorted(row["_at"] for row in rows)
    assert result.report["batches"] >= 6


@pytest.mark.timeout(300)
def test_a_death_makes_a_batch_though_nothing_arrives(engine: Engine, tmp_path: Path) -> None:
    """One tuple every 100 s: the average of the first one ends after a second, and is written then.

    id 0   |-------|                     (next tuple: 100 s later)
           0 s     1 s
    """
    app = tmp_path / "cars.cql"
    app.write_text(
        CARS.format(rate=0.01) + "CREATE QUERY left AS DSTREAM(SELECT id FROM cars [RANGE 1 SECONDS]);",
        encoding="utf-8",
    )
    run = engine.start(app, drain=False, output=str(tmp_path), keep_results=False)
    await_batches(run, 2)
    run.stop()
    lines = (tmp_path / "left.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["id", "0"]


@pytest.mark.timeout(300)
def test_a_session_of_the_user_keeps_its_settings(engine: Engine, tmp_path: Path) -> None:
    spark = engine.spark
    before = spark.conf.get("spark.sql.shuffle.partitions")
    app = tmp_path / "cars.cql"
    text = (
        "CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 10, rows = 50, id = 'sequence', "
        "speed = 'normal(80, 10)');"
    )
    app.write_text(text + "CREATE QUERY q AS SELECT id FROM cars [UNBOUNDED];", encoding="utf-8")
    mine = Engine(spark)
    assert sorted(row["id"] for row in mine.run(app, drain=True).dataframe("q").collect()) == list(range(50))
    mine.close()
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3, "a session that is not ours stays open"


@pytest.mark.timeout(300)
def test_firm_shed_and_cost_at_work(engine: Engine, tmp_path: Path) -> None:
    """SHED keeps 50 tuples per second. The expensive FIRM query drops some, the soft one none. All are counted."""
    app = tmp_path / "cars.cql"
    app.write_text(
        """CREATE STREAM cars (id BIGINT, speed DOUBLE)
             FROM synthetic (rate = 100, seed = 7, duration = '6 s', id = 'sequence', speed = 'normal(80, 10)')
             SHED ABOVE 50 PER SECOND BY speed INTO csv (path = 'shed.csv');
           CREATE QUERY dear DEADLINE 1 SECONDS FIRM COST 40000 MICROSECONDS AS ISTREAM(SELECT id FROM cars [NOW]);
           CREATE QUERY all_of_it DEADLINE 1 MINUTE AS ISTREAM(SELECT id FROM cars [NOW]);""",
        encoding="utf-8",
    )
    result = engine.run(app, drain=False, output=str(tmp_path), keep_results=False)
    assert result.finished

    def ids(name: str) -> list[int]:
        with (tmp_path / name).open(encoding="utf-8") as file:
            return [int(row["id"]) for row in csv.DictReader(file)]

    shed, kept, dear = ids("shed.csv"), ids("all_of_it.csv"), ids("dear.csv")
    assert sorted(shed + kept) == list(range(600)), "what stays and what is shed are the stream"
    assert 250 <= len(kept) <= 360
    assert set(dear) < set(kept), "40 ms a tuple, 50 tuples a second: two cores cannot"
    soft, firm = result.report["queries"]["all_of_it"], result.report["queries"]["dear"]
    assert (soft["in"], soft["shed"], soft["missed"], soft["sdmr"]) == (600, len(shed), 0, len(shed) / 600)
    assert (firm["in"], firm["shed"]) == (600, 600 - len(dear))
    assert firm["sdmr"] == (firm["missed"] + firm["shed"]) / 600
    assert (
        result.report["costs"]["tasks"]["task0"]["tuple_us"] > 4 * result.report["costs"]["tasks"]["task1"]["tuple_us"]
    )


def test_a_full_buffer_drops_the_oldest_and_counts_them(engine: Engine, tmp_path: Path) -> None:
    app = tmp_path / "cars.cql"
    app.write_text(
        """CREATE STREAM cars (id BIGINT) FROM synthetic (rate = 100, duration = '4 s', id = 'sequence') BUFFER 20;
           CREATE QUERY dear COST 30000 MICROSECONDS AS ISTREAM(SELECT id FROM cars [NOW]);""",
        encoding="utf-8",
    )
    result = engine.run(app, drain=False, output=str(tmp_path), keep_results=False)
    with (tmp_path / "dear.csv").open(encoding="utf-8") as file:
        ids = [int(row["id"]) for row in csv.DictReader(file)]
    told = result.report["queries"]["dear"]
    assert result.finished
    assert told["dropped"] > 0, "30 ms a tuple, 100 tuples a second: it cannot keep up"
    assert (told["in"], told["shed"], told["out"], told["dropped"]) == (400, 0, len(ids), 400 - len(ids))
    assert ids == sorted(set(ids))
    assert ids[-1] == 399, "the newest have room"

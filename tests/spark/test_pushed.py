"""Pushed streams through Spark: rows of Python into a run, and a run that continues."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from kigen.engine import Engine, Run

APP = """CREATE STREAM posted (k STRING, v DOUBLE) FROM http ();
CREATE QUERY seen AS ISTREAM(SELECT k, v FROM posted [ROWS 3] WHERE v > 1);
CREATE QUERY mean AS SELECT k, AVG(v) AS mean FROM posted [RANGE 1 SECONDS] GROUP BY k;
CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM http ()
  SHED ABOVE 2 PER SECOND BY speed INTO csv (path = '{shed}');
CREATE QUERY fast AS ISTREAM(SELECT id, speed FROM cars [NOW]);
"""


def lines(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def until(run: Run, path: Path, count: int) -> None:
    end = time.monotonic() + 200
    while len(lines(path)) < count:
        assert run.active
        assert time.monotonic() < end, f"{len(lines(path))} lines"
        time.sleep(0.05)


@pytest.mark.timeout(900)
def test_pushed_rows_are_processed_once_over_a_restart(engine: Engine, tmp_path: Path) -> None:
    options = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "keep_results": False}
    out = tmp_path / "out"
    text = APP.format(shed=tmp_path / "shed.csv")
    run = engine.start(text=text, **options)
    done = run.push("cars", [{"id": i, "speed": float(10 * i)} for i in range(5)])
    assert (done.accepted + done.shed, 1 <= done.accepted <= 2) == (5, True)
    assert run.push("posted", [{"k": "a", "v": 1.0}, {"k": "b", "v": 2.0}], key="1").accepted == 2
    until(run, out / "seen.csv", 1)
    until(run, out / "fast.csv", done.accepted)  # the queries may be in different lanes
    until(run, tmp_path / "shed.csv", done.shed)
    until(run, out / "mean.csv", 2)  # deaths come by the clock, though nothing arrives
    run.push("posted", [{"k": "c", "v": 3.0}], key="2")
    run.stop()
    run = engine.start(text=text, **options)
    assert run.push("posted", [{"k": "c", "v": 3.0}], key="2").repeated
    run.push("posted", [{"k": "d", "v": 4.0}], key="3")
    until(run, out / "seen.csv", 3)
    until(run, out / "mean.csv", 4)
    report = run.stop().report
    assert [(row["k"], row["v"]) for row in lines(out / "seen.csv")] == [("b", "2.0"), ("c", "3.0"), ("d", "4.0")]
    assert sorted((row["k"], row["mean"]) for row in lines(out / "mean.csv")) == [
        ("a", "1.0"),
        ("b", "2.0"),
        ("c", "3.0"),
        ("d", "4.0"),
    ]
    assert report["queries"]["seen"]["in"] == 4
    kept, shed = [[int(row["id"]) for row in lines(path)] for path in (out / "fast.csv", tmp_path / "shed.csv")]
    assert (kept, shed) == (list(range(5 - done.accepted, 5)), list(range(5 - done.accepted)))
    assert (report["queries"]["fast"]["in"], report["queries"]["fast"]["shed"]) == (5, done.shed)

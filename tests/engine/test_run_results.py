"""Results and progress of runs from Python: what Spark, pyarrow, pandas and polars read, and what listeners get."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kigen.engine import ArgumentError, Engine, Progress
from kigen.engine.progress import ProgressThread

APP = """
CREATE STREAM s (v BIGINT, word STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'in.csv');
CREATE QUERY last AS SELECT * FROM s [ROWS 1];
CREATE QUERY seen AS ISTREAM(SELECT v FROM s [ROWS 1]) INTO parquet (path = 'seen');
CREATE QUERY none AS SELECT v FROM s [ROWS 1] WHERE v > 100;
"""
ROWS = 'v,word,ts\n1,,2026-01-01T00:00:00Z\n2,"",2026-01-01T00:00:01Z\n3,c,2026-01-01T00:00:02Z\n'
NOTHING = Progress(None, 0, {})


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    below = tmp_path / "a [b] {c,d}*"  # all that Hadoop would expand
    below.mkdir()
    (below / "in.csv").write_text(ROWS, encoding="utf-8")
    return below


@pytest.mark.timeout(300)
def test_results_are_read_from_the_files(engine: Engine, folder: Path) -> None:
    result = engine.run(text=APP, base=folder, drain=True, checkpoint=folder / "ck")
    frame = result.dataframe("last")
    assert dict(frame.dtypes) == {
        "v": "bigint",
        "word": "string",
        "ts": "timestamp",
        "_from": "timestamp",
        "_to": "timestamp",
    }
    table = result.to_arrow("last")
    assert sorted((row["v"], row["word"], row["_from"], row["_to"]) for row in table.to_pylist()) == [
        (1, None, at(0), at(1)),
        (2, "", at(1), at(2)),
        (3, "c", at(2), None),
    ]
    seconds = frame.selectExpr("v", "word", "unix_seconds(_from) AS since", "unix_seconds(_to) AS until")
    assert sorted(tuple(row) for row in seconds.collect()) == [
        (v, word, since.timestamp(), None if until is None else until.timestamp())
        for v, word, since, until in [(1, None, at(0), at(1)), (2, "", at(1), at(2)), (3, "c", at(2), None)]
    ]
    assert frame.inputFiles(), "Spark reads files"
    assert table["ts"].type.tz == "UTC"
    assert sorted(result.to_pandas("last")["v"]) == [1, 2, 3]
    assert result.dataframe("seen").columns == ["v", "_at"]
    assert result.dataframe("none").columns == ["v", "_from", "_to"]
    assert result.dataframe("none").count() == result.to_arrow("none").num_rows == 0
    result.close()
    assert (folder / "ck" / "results").exists(), "results in a checkpoint stay"
    with pytest.raises(KeyError, match="there is no query 'lost': use one of last, seen, none"):
        result.dataframe("lost")


@pytest.mark.timeout(300)
def test_temporary_results_live_as_long_as_a_dataframe_may_read_them(engine: Engine, folder: Path) -> None:
    frame = engine.run(text=APP, base=folder, drain=True).dataframe("last").where("v > 1")
    gc.collect()
    assert frame.count() == 2
    result = engine.run(text=APP, base=folder, drain=True)
    scratch = result._scratch
    result.to_arrow("last")
    assert scratch.exists()
    del result
    gc.collect()
    assert not scratch.exists()


@pytest.mark.timeout(300)
def test_a_run_that_keeps_nothing_still_reads_what_a_query_wrote(engine: Engine, folder: Path) -> None:
    result = engine.run(text=APP, base=folder, drain=True, keep_results=False)
    assert sorted(row["v"] for row in result.dataframe("seen").collect()) == [1, 2, 3]
    with pytest.raises(ArgumentError, match="keep_results=True"):
        result.dataframe("last")


def test_polars_is_the_users_own(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = engine.prepare(text=APP, base=folder).stop()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        result.to_polars("last")


@pytest.mark.timeout(300)
def test_a_listener_hears_of_the_run_from_one_thread(
    engine: Engine, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Progress] = []
    threads: set[str] = set()

    def listen(progress: Progress) -> None:
        heard.append(progress)
        threads.add(threading.current_thread().name)
        raise ValueError("a fault of the listener")

    with caplog.at_level(logging.WARNING, logger="kigen"):
        result = engine.run(text=APP, base=folder, drain=True, on_progress=listen, progress_every_s=0.05)
    assert result.finished
    assert threads == {"kigen-progress"}
    assert len(heard) > 2
    assert (heard[-1].fraction, heard[-1].queries["last"].arrived) == (1.0, 3)
    assert len([record for record in caplog.records if "on_progress raised" in record.message]) == 1
    assert caplog.text.count("ValueError: a fault of the listener") == 1
    assert not [t for t in threading.enumerate() if t.name == "kigen-progress"]


def test_a_listener_may_end_its_own_thread() -> None:
    heard: list[Progress] = []
    made: list[ProgressThread] = []
    ready = threading.Event()

    def listen(progress: Progress) -> None:
        ready.wait(120)
        heard.append(progress)
        made[0].close()

    made.append(ProgressThread(listen, lambda: NOTHING, 0.01))
    ready.set()
    made[0]._thread.join(120)
    assert not made[0]._thread.is_alive()
    assert heard == [NOTHING, NOTHING], "once, and once at the end"

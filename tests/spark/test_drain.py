"""Complete runs through Spark: however the input is cut into batches, the bag of lines is the same."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from rooms import bags, write_rooms

from kigen.connectors import InputError
from kigen.engine import CheckpointInUse, CheckpointMismatch, Engine, RunFailed, RunOptions
from kigen.lifetimes import EvaluationError

READINGS = (
    "CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv')"
)


def small_app(directory: Path, data: str, query: str, clause: str = "") -> Path:
    (directory / "readings.csv").write_text(data, encoding="utf-8")
    app = directory / "app.cql"
    app.write_text(f"{READINGS} {clause};\nCREATE QUERY q AS {query};\n", encoding="utf-8")
    return app


@pytest.mark.timeout(600)
def test_cuts_and_lifetime_methods_give_the_same_lines(engine: Engine, tmp_path: Path) -> None:
    app = write_rooms(tmp_path, 600)
    whole = engine.run(app, drain=True, output=str(tmp_path / "whole"))
    cut = engine.run(
        app, drain=True, output=str(tmp_path / "cut"), batch_rows=140, inline_bytes=100, checkpoint=str(tmp_path / "ck")
    )
    negative = engine.run(app, drain=True, output=str(tmp_path / "nt"), batch_rows=300, lifetime="nt")
    expected = bags(tmp_path / "whole")
    assert all(len(lines) > 30 for lines in expected.values()), {k: len(v) for k, v in expected.items()}
    assert bags(tmp_path / "cut") == expected
    assert {k: v for k, v in bags(tmp_path / "nt").items() if k == "arrivals.csv"} == {
        "arrivals.csv": expected["arrivals.csv"]
    }
    assert whole.finished
    assert cut.report["batches"] > 5 > whole.report["batches"]
    assert negative.report["lifetime"] == "nt"
    assert cut.report["queries"]["meet"]["in"] == 800
    assert cut.report["queries"]["hot"]["out"] == len(expected["hot.csv"]) - 1

    frame = cut.dataframe("hot")
    assert [(f.name, f.dataType.typeName()) for f in frame.schema] == [
        ("room", "string"),
        ("mean", "double"),
        ("n", "long"),
        ("_from", "timestamp"),
        ("_to", "timestamp"),
    ]
    assert frame.count() == len(expected["hot.csv"]) - 1


def test_a_finished_checkpoint_is_left_as_it_is(engine: Engine, tmp_path: Path) -> None:
    app = small_app(tmp_path, "room,temp,ts\na,1.5,2026-01-01T00:00:00Z\n", "SELECT room FROM readings [ROWS 1]")
    options = {"drain": True, "output": str(tmp_path / "out"), "checkpoint": str(tmp_path / "ck")}
    engine.run(app, **options)
    text = (tmp_path / "out" / "q.csv").read_text(encoding="utf-8")
    assert text == "room,_from,_to\na,2026-01-01T00:00:00.000000Z,\n"
    again = engine.prepare(app, RunOptions(**options))
    assert again.finished
    assert again.stop().report["queries"]["q"] | {"latency_ms": None} == engine.run(app, **options).report["queries"][
        "q"
    ] | {"latency_ms": None}
    assert (tmp_path / "out" / "q.csv").read_text(encoding="utf-8") == text


def test_an_empty_stream_gives_an_empty_result(engine: Engine, tmp_path: Path) -> None:
    app = small_app(tmp_path, "room,temp,ts\n", "SELECT COUNT(*) AS n FROM readings [RANGE 1 SECONDS]")
    result = engine.run(app, drain=True, output=str(tmp_path / "out"))
    assert result.finished
    assert (tmp_path / "out" / "q.csv").read_text(encoding="utf-8") == "n,_from,_to\n"
    assert result.dataframe("q").count() == 0


def test_a_bad_row_ends_the_run_with_its_place(engine: Engine, tmp_path: Path) -> None:
    app = small_app(
        tmp_path,
        "room,temp,ts\na,1,2026-01-01T00:00:00Z\na,x,2026-01-01T00:00:01Z\n",
        "SELECT room FROM readings [RANGE 1 SECONDS]",
    )
    with pytest.raises(InputError, match="temp") as caught:
        engine.run(app, drain=True, output=str(tmp_path / "out"), checkpoint=str(tmp_path / "ck"))
    assert (caught.value.line, caught.value.field) == (3, "temp")
    with pytest.raises(InputError):  # the failed batch was not committed: it fails again
        engine.run(app, drain=True, output=str(tmp_path / "out"), checkpoint=str(tmp_path / "ck"))


def test_bad_rows_may_be_skipped_and_are_counted(engine: Engine, tmp_path: Path) -> None:
    data = "room,temp,ts\na,1,2026-01-01T00:00:00Z\na,x,2026-01-01T00:00:01Z\nb,2,2026-01-01T00:00:02Z\n"
    app = small_app(tmp_path, data, "SELECT room FROM readings [RANGE 1 SECONDS]", "ON ERROR SKIP")
    run = engine.start(app, drain=True)
    run.await_end()
    assert run.stop().report["queries"]["q"] | {"latency_ms": None, "state": None} == {
        "in": 2,
        "out": 2,
        "missed": 0,
        "shed": 0,
        "late": 0,
        "skipped": 1,
        "dropped": 0,
        "sdmr": 0.0,
        "deadline_ms": None,
        "latency_ms": None,
        "missed_ms": {"waiting": None, "running": None, "committing": None},
        "state": None,
    }
    assert "'x'" in run.skipped["readings"][0]


def test_bad_and_late_rows_go_to_their_outputs_once(engine: Engine, tmp_path: Path) -> None:
    """Two tasks read the stream and lose the same rows; the outputs have them once."""
    rows = [f"r,{n if n % 10 else 'x'},2026-01-01T00:00:{n:02d}Z\n" for n in range(20)]
    rows.append("late,7,2026-01-01T00:00:01Z\n")
    (tmp_path / "readings.csv").write_text("room,temp,ts\n" + "".join(rows), encoding="utf-8")
    (tmp_path / "app.cql").write_text(
        """CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts LATENESS 2 SECONDS
             FROM csv (path = 'readings.csv')
             ON ERROR INTO csv (path = 'bad.csv') LATE INTO csv (path = 'late.csv');
           CREATE QUERY a AS SELECT temp FROM readings [NOW];
           CREATE QUERY b DEADLINE 1 SECONDS FIRM AS SELECT room FROM readings [ROWS 2];""",
        encoding="utf-8",
    )
    result = engine.run(tmp_path / "app.cql", drain=True)
    assert [(q["skipped"], q["late"]) for q in result.report["queries"].values()] == [(2, 1)] * 2
    with open(tmp_path / "bad.csv", encoding="utf-8", newline="") as file:
        bad = list(csv.DictReader(file))
    assert [(row["_row"], row["_place"].rsplit("/", 1)[1]) for row in bad] == [
        ("r,x,2026-01-01T00:00:00Z", "readings.csv:2"),
        ("r,x,2026-01-01T00:00:10Z", "readings.csv:12"),
    ]
    assert all(row["_reason"].startswith("field 'temp': DOUBLE required, found 'x'") for row in bad)
    with open(tmp_path / "late.csv", encoding="utf-8", newline="") as file:
        (late,) = csv.DictReader(file)
    assert late["room"] == "late"
    assert late["_at"] == "2026-01-01T00:00:01.000000Z"
    assert late["_reason"] == "18 s behind the newest timestamp; LATENESS is 2 s"
    assert late["_place"].startswith("readings.csv: bytes ")


def test_an_expression_that_fails_on_the_data_ends_the_run(engine: Engine, tmp_path: Path) -> None:
    app = small_app(
        tmp_path,
        "room,temp,ts\nseven,1,2026-01-01T00:00:00Z\n",
        "SELECT CAST(room AS BIGINT) AS n FROM readings [RANGE 1 SECONDS]",
    )
    with pytest.raises(EvaluationError, match="seven"):
        engine.run(app, drain=True)


def test_a_fault_in_a_worker_is_told_in_one_line(engine: Engine, tmp_path: Path) -> None:
    app = small_app(tmp_path, "room,temp,ts\na,1,2026-01-01T00:00:00Z\n", "SELECT room FROM readings [ROWS 1]")
    with pytest.raises(
        RunFailed, match=r"^Spark ended the run: TypeError: int\(\) takes at most 2 arguments .* \(Spark's log: .*\)$"
    ):
        engine.run(app, drain=True, runtime="builtins:int")


def test_a_changed_app_is_refused_with_what_changed(engine: Engine, tmp_path: Path) -> None:
    app = small_app(tmp_path, "room,temp,ts\na,1,2026-01-01T00:00:00Z\n", "SELECT room FROM readings [ROWS 1]")
    checkpoint = str(tmp_path / "ck")
    engine.prepare(app, RunOptions(drain=True, checkpoint=checkpoint)).stop()
    text = app.read_text(encoding="utf-8")
    app.write_text(text.replace("ROWS 1", "ROWS 2") + "CREATE QUERY more AS SELECT room FROM q;", encoding="utf-8")
    with pytest.raises(CheckpointMismatch) as caught:
        engine.prepare(app, RunOptions(drain=True, checkpoint=checkpoint, lifetime="nt"))
    for part in (
        "query 'q' was altered: the query itself",
        "query 'more' was added",
        "--lifetime: dt there, nt here",
        "another --checkpoint",
    ):
        assert part in str(caught.value)
    app.write_text("-- a comment changes nothing\n" + text.replace("SELECT room", "select  room"), encoding="utf-8")
    engine.prepare(app, RunOptions(drain=True, checkpoint=checkpoint)).stop()


def test_a_checkpoint_serves_one_run_at_a_time(engine: Engine, tmp_path: Path) -> None:
    app = small_app(tmp_path, "room,temp,ts\n", "SELECT room FROM readings [ROWS 1]")
    first = engine.prepare(app, RunOptions(drain=True, checkpoint=str(tmp_path / "ck")))
    with pytest.raises(CheckpointInUse, match="in use by process"):
        engine.prepare(app, RunOptions(drain=True, checkpoint=str(tmp_path / "ck")))
    assert (tmp_path / "ck" / "owner.json").exists(), "the one that was refused leaves the first alone"
    first.stop()
    engine.prepare(app, RunOptions(drain=True, checkpoint=str(tmp_path / "ck"))).stop()


def test_a_missing_input_is_found_before_spark_starts(tmp_path: Path) -> None:
    app = small_app(tmp_path, "", "SELECT room FROM readings [ROWS 1]")
    (tmp_path / "readings.csv").unlink()
    with pytest.raises(InputError, match=r"readings\.csv"):
        Engine(master="spark://nowhere.invalid:1").prepare(app, RunOptions(drain=True, checkpoint=str(tmp_path / "ck")))
    assert not (tmp_path / "ck" / "owner.json").exists()


def test_files_with_different_headers(engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "in").mkdir()
    day = "2026-01-01T00:00:0"
    (tmp_path / "in" / "1.csv").write_text(f"ts,room,temp\n{day}0Z,a,1.5\n{day}1Z,b,2.5\n", encoding="utf-8")
    (tmp_path / "in" / "2.csv").write_text(f"room,ts,more\nc,{day}2Z,x\nd,{day}3Z,y\n", encoding="utf-8")
    app = tmp_path / "app.cql"
    query = (
        "CREATE QUERY q AS SELECT room, temp FROM readings [NOW];\nCREATE QUERY r AS SELECT room FROM readings [NOW];"
    )
    app.write_text(f"{READINGS.replace('readings.csv', 'in/*.csv')};\n{query}\n", encoding="utf-8")
    with caplog.at_level("WARNING", "kigen"):
        done = engine.run(app, drain=True, output=str(tmp_path / "out"), batch_rows=1)
    with open(tmp_path / "out" / "q.csv", newline="", encoding="utf-8") as file:
        assert [(row["room"], row["temp"]) for row in csv.DictReader(file)] == [
            ("a", "1.5"),
            ("b", "2.5"),
            ("c", ""),
            ("d", ""),
        ]
    assert done.report["streams"]["readings"] == {"unknown_fields": {"more": 2}, "missing_columns": {"temp": 2}}
    said = [record.getMessage() for record in caplog.records if "is missing in" in record.getMessage()]
    assert len(said) == 1
    assert f"stream 'readings': column 'temp' is missing in {tmp_path / 'in' / '2.csv'}" in said[0]

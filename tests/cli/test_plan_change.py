"""`kigen plan-change`: what a changed app would do with a checkpoint, without Spark and without touching it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app
from kigen.engine import CheckpointMismatch, Engine, RunOptions

STREAMS = """CREATE STREAM s (room STRING, temp BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE STREAM other (room STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
"""
POSTED = "CREATE STREAM posted (room STRING) FROM http ();\n"
MEAN = "CREATE QUERY mean AS SELECT room, AVG(temp) AS m FROM s [ROWS 3] GROUP BY room;\n"
HOT = "CREATE QUERY hot AS SELECT room FROM s [ROWS 2] WHERE temp > 30;\n"
READER = "CREATE QUERY reader AS SELECT COUNT(*) AS n FROM hot;\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("room,temp,ts\na,1,2026-01-01T00:00:00Z\n", encoding="utf-8")
    write(tmp_path, STREAMS + MEAN + HOT + READER)
    options = RunOptions(drain=True, checkpoint=tmp_path / "ck", output=tmp_path / "out")
    Engine().prepare(tmp_path / "app.cql", options).stop()
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "app.cql").write_text(text, encoding="utf-8")


def plan(folder: Path, *more: str) -> tuple[int, str]:
    files = {path: path.read_bytes() for path in (folder / "ck").rglob("*") if path.is_file()}
    done = CliRunner().invoke(app, ["plan-change", str(folder / "app.cql"), "--checkpoint", str(folder / "ck"), *more])
    after = {path: path.read_bytes() for path in (folder / "ck").rglob("*") if path.is_file()}
    assert files == after, "it changes nothing"
    return done.exit_code, done.output


def actions(folder: Path, *more: str) -> dict[str, str]:
    code, shown = plan(folder, "--format", "json", *more)
    assert code == 0, shown
    return {one["query"]: one["action"] for one in json.loads(shown)["queries"]}


def test_the_same_app_changes_nothing(folder: Path) -> None:
    write(folder, "-- a comment\n" + STREAMS + READER + HOT.replace("SELECT", "select ") + MEAN)
    assert plan(folder) == (0, "nothing changes: the app is the one of the checkpoint\n")


def test_a_changed_query_and_its_readers_are_dropped_and_added(folder: Path) -> None:
    write(folder, STREAMS + MEAN + HOT.replace("30", "40") + READER)
    assert actions(folder) == {"mean": "keep", "hot": "change", "reader": "change"}
    write(folder, STREAMS + HOT + "CREATE QUERY new AS SELECT room FROM other [NOW];")
    assert actions(folder) == {"hot": "keep", "new": "add", "mean": "drop", "reader": "drop"}


def test_a_clause_of_a_stream_changes_its_readers(folder: Path) -> None:
    late = STREAMS.replace("FROM csv (path = 's.csv');", "LATENESS 1 SECONDS FROM csv (path = 's.csv');", 1)
    write(folder, late + MEAN + HOT + READER)
    code, shown = plan(folder)
    assert code == 0
    assert "stream 's' (LATENESS)" in shown
    assert set(actions(folder).values()) == {"change"}


def test_an_output_that_exists_is_set_aside(folder: Path) -> None:
    write(folder, STREAMS + MEAN.replace("ROWS 3", "ROWS 4") + HOT + READER)
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / "mean.csv").write_text("m\n", encoding="utf-8")
    (folder / "out" / "mean.csv.old-1").write_text("m\n", encoding="utf-8")
    _, shown = plan(folder)
    assert f"{folder}/out/mean.csv is set aside as {folder}/out/mean.csv.old-2" in shown


def test_a_replay_needs_a_source_that_keeps_its_tuples(folder: Path) -> None:
    write(folder, STREAMS + POSTED + MEAN + "CREATE QUERY new AS SELECT room FROM posted [NOW];")
    code, shown = plan(folder, "--replay-from", "2026-01-01T00:00:00Z")
    assert code == 2
    assert "stream 'posted' comes FROM http, which keeps no older tuples: leave --replay-from out" in shown
    write(folder, STREAMS + MEAN + "CREATE QUERY new AS SELECT room FROM other [NOW];")
    _, shown = plan(folder, "--replay-from", "2026-01-01T00:00:00+01:00")
    assert "2025-12-31T23:00:00Z" in shown
    code, shown = plan(folder, "--replay-from", "yesterday")
    assert code == 2
    assert "'yesterday' is not a time: write it as in ISO 8601" in shown


def test_what_is_no_checkpoint_is_said(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plan-change", str(folder / "app.cql"), "--checkpoint", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "is no checkpoint" in done.output


def test_no_change_refuses_and_says_what_changed(folder: Path) -> None:
    write(folder, STREAMS + MEAN + HOT.replace("30", "40"))
    options = RunOptions(drain=True, checkpoint=folder / "ck", output=folder / "out", no_change=True)
    with pytest.raises(CheckpointMismatch, match=r"query 'reader' was removed.*\n.*query 'hot' was altered"):
        Engine().prepare(folder / "app.cql", options)


def test_the_change_is_made_before_spark_starts_if_nothing_is_open(folder: Path) -> None:
    write(folder, STREAMS + MEAN)
    options = RunOptions(drain=True, checkpoint=folder / "ck", output=folder / "out")
    run = Engine().prepare(folder / "app.cql", options)
    assert run.last_change is not None
    assert run.last_change.found.dropped == ("hot", "reader")
    run.stop()
    assert plan(folder)[1].startswith("nothing changes")

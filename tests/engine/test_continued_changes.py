"""An app that was changed while it ran continues so, as long as the file of the command is the same. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from kigen.engine import Engine, RunOptions
from kigen.engine.apps import read_app
from kigen.engine.changes.preview import preview
from kigen.engine.checkpoint.savepoint import arrive, read_savepoint, write_savepoint
from kigen.engine.run import Run

ONE = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY one AS SELECT a FROM s [ROWS 1];
"""
TWO = "CREATE QUERY two AS SELECT a FROM one;\n"


def prepared(folder: Path, checkpoint: str = "ck", output: str = "out") -> Run:
    options = RunOptions(
        drain=True, checkpoint=folder / checkpoint, output=folder / output, durability="process", keep_results=False
    )
    return Engine().prepare(folder / "app.cql", options)


def changed_while_running(folder: Path) -> None:
    """Leaves a checkpoint whose app was changed from ONE to ONE and TWO."""
    (folder / "s.csv").write_text("a,ts\n1,2026-01-01T00:00:00Z\n", encoding="utf-8")
    (folder / "app.cql").write_text(ONE, encoding="utf-8")
    run = prepared(folder)
    declared = run._given(read_app(text=ONE + TWO, base=folder))
    run._app_of_run.change(declared, run._spec_of, None, while_running=True)
    run.stop()


def record(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "ck" / "app.json").read_bytes())
    return found


def test_the_same_file_continues_the_changed_app(tmp_path: Path) -> None:
    changed_while_running(tmp_path)
    for _ in range(2):
        run = prepared(tmp_path)
        assert run.continues_changed
        assert [q.name for q in run.app.queries] == ["one", "two"]
        assert run.last_change is None
        run.stop()
    assert preview(tmp_path / "ck", read_app(tmp_path / "app.cql")).found.is_empty, "plan-change says the same"


def test_a_changed_file_counts(tmp_path: Path) -> None:
    changed_while_running(tmp_path)
    (tmp_path / "app.cql").write_text(ONE + TWO.replace("two", "three"), encoding="utf-8")
    run = prepared(tmp_path)
    assert not run.continues_changed
    assert run.last_change is not None
    assert (run.last_change.found.dropped, run.last_change.found.added) == (("two",), ("three",))
    run.stop()
    assert record(tmp_path)["started_with"] == ""
    (tmp_path / "app.cql").write_text(ONE, encoding="utf-8")
    run = prepared(tmp_path)
    assert [q.name for q in run.app.queries] == ["one"], "it is a change like any other now"
    run.stop()


def test_a_file_that_says_what_runs_changes_nothing(tmp_path: Path) -> None:
    changed_while_running(tmp_path)
    (tmp_path / "app.cql").write_text(ONE + "-- now in the file\n" + TWO, encoding="utf-8")
    run = prepared(tmp_path)
    assert not run.continues_changed
    assert run.last_change is None
    assert [q.name for q in run.app.queries] == ["one", "two"]
    run.stop()


def test_a_savepoint_has_no_places_and_its_first_run_decides_once(tmp_path: Path) -> None:
    changed_while_running(tmp_path)
    sink = tmp_path / "ck" / "sink"
    sink.mkdir(exist_ok=True)
    positions = {"one output": {"bytes": 10, "tail": 0}, "two output #1": {"bytes": 20, "tail": 0}}
    body = {"v": 1, "batch": 0, "marks": positions, "metrics": {}}
    (sink / "0.json").write_text(json.dumps(body))
    (tmp_path / "ck" / "serve").mkdir()
    (tmp_path / "ck" / "serve" / "token").write_text("secret")
    about = write_savepoint(tmp_path / "ck", tmp_path / "saved")
    assert about["outputs"] == positions
    assert about["reads_in_place"] == {"s": {"connector": "csv", "path": "s.csv"}}
    assert about["app"] == ONE + TWO
    assert not (tmp_path / "saved" / "serve").exists()
    for path in (tmp_path / "saved").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes(), path

    class There:
        path = str(tmp_path / "s.csv")

    class Missing:
        path = str(tmp_path / "none.csv")

    outputs = {"one": [("one output", There())], "two": [("two output #1", Missing())]}
    assert arrive(tmp_path / "saved", outputs, False) == ["two output #1"]  # type: ignore[arg-type]
    left = json.loads((tmp_path / "saved" / "sink" / "0.json").read_bytes())
    assert left["marks"] == {"one output": {"bytes": 10, "tail": 0}}
    saved = read_savepoint(tmp_path / "saved")
    assert saved is not None
    assert saved["arrived"]
    assert arrive(tmp_path / "saved", outputs, False) == []  # type: ignore[arg-type]

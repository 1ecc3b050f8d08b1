"""A running app changes at the end of an epoch: the others keep their lines, added queries have those of a run from
there on, and a saved app continues elsewhere."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_changed_apps import MEAN, PAIRS, ROW, ROWS, STREAM, TOP, alone, lines_of, write_rows

from kigen.engine import Engine, RunOptions
from kigen.engine.errors import ArgumentError
from kigen.engine.run import Run
from kigen.language import CqlErrors

POSTED = """CREATE STREAM posted (n BIGINT) FROM http ();
CREATE QUERY seen AS ISTREAM(SELECT n FROM posted [NOW]);
CREATE QUERY total AS SELECT COUNT(*) AS n FROM posted [ROWS 1000000];
"""
TWICE = "CREATE QUERY twice AS ISTREAM(SELECT 2 * n AS m FROM posted [NOW]);"


def until(reached: Callable[[], bool], run: Run, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert run.active
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def pushing(run: Run) -> Iterator[list[int]]:
    """Pushes 0, 1, 2, ... Gives a list whose only element is how many were taken."""
    sent, done = [0], threading.Event()

    def push() -> None:
        while not done.wait(0.01):
            run.push("posted", [{"n": sent[0]}])
            sent[0] += 1

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield sent
    finally:
        done.set()
        thread.join()


def numbers(path: Path) -> list[int]:
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a last line without its end is being written
    return [int(line.split(",")[0]) for line in whole.splitlines()[1:]]


@pytest.mark.timeout(900)
def test_queries_come_and_go_while_tuples_are_pushed(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {"checkpoint": tmp_path / "ck", "output": out, "keep_changes_s": 600, "keep_results": False}
    run = engine.start(text=POSTED, base=tmp_path, **options)  # type: ignore[arg-type]
    totals = run.subscribe("total")
    try:
        with pushing(run) as sent:
            until(lambda: len(numbers(out / "seen.csv")) > 20, run)
            with pytest.raises(CqlErrors, match="unknown column k"):
                run.add("CREATE QUERY wrong AS SELECT k FROM posted [NOW];")
            with pytest.raises(ArgumentError, match="no query 'sen'"):
                run.drop("sen")
            planned = run.add(TWICE, plan=True)
            assert (planned.made, planned.queries[-1]["action"]) == (False, "add")
            added = run.add(TWICE)
            assert added.made
            assert [(q["query"], q["action"]) for q in added.queries] == [
                ("seen", "keep"),
                ("total", "keep"),
                ("twice", "add"),
            ]
            assert added.paused_s > 0
            until(lambda: len(numbers(out / "twice.csv")) > 20, run)
            before = sent[0]
            changed = run.change(text=run.app.text.replace("2 * n", "n + n"))
            assert [q["action"] for q in changed.queries] == ["keep", "keep", "change"]
            first = numbers(out / "twice.csv.old-1")
            until(lambda: len(numbers(out / "twice.csv")) > 20, run)
            run.drop("twice")
            second = numbers(out / "twice.csv")
            until(lambda: numbers(out / "seen.csv")[-1] > before + 20, run)
            assert list(run.report_so_far()["queries"]) == ["seen", "total"]
        until(lambda: len(numbers(out / "seen.csv")) == sent[0], run)
        # `total` may run in another lane, whose worker starts later than that of `seen` after a change.
        until(lambda: [row["n"] for row in run.current("total")] == sent, run)
    finally:
        run.stop()
    assert numbers(out / "seen.csv") == list(range(sent[0])), "every tuple once, in order"
    assert first == [2 * n for n in range(first[0] // 2, first[0] // 2 + len(first))], "no gap in what it saw"
    assert second[0] == first[-1] + 2, "the changed query begins where the old one ended"
    assert second == [2 * n for n in range(second[0] // 2, second[0] // 2 + len(second))]
    assert numbers(out / "twice.csv") == second, "its output stays"
    counts = [change["n"] for change in totals if change["_op"] == "insert"]
    assert counts == list(range(1, sent[0] + 1)), "a reader goes on over the changes"
    print(f"paused: add {added.paused_s:.2f} s, change {changed.paused_s:.2f} s")


def started(engine: Engine, folder: Path, text: str) -> Run:
    """Starts a drain in small batches, and returns when three of them are committed."""
    (folder / "app.cql").write_text(STREAM + text, encoding="utf-8")
    options = RunOptions(
        drain=True, output=folder / "out", checkpoint=folder / "ck", keep_results=False, batch_rows=100
    )
    run = engine.prepare(folder / "app.cql", options)
    run.begin(engine.spark)
    while run.active and len(run.commits) < 3:
        time.sleep(0.01)
    return run


@pytest.mark.timeout(900)
def test_a_drain_changes_on_its_way(engine: Engine, tmp_path: Path) -> None:
    rows = write_rows(tmp_path)
    run = started(engine, tmp_path, MEAN + TOP + ROW)
    run.change(text=STREAM + MEAN + ROW + PAIRS)
    run.await_end()
    result = run.stop()
    assert result.finished
    whole = alone(engine, tmp_path / "whole", MEAN + ROW, rows)
    for name in ("mean", "last"):
        assert lines_of(tmp_path / "out" / f"{name}.csv") == lines_of(whole / f"{name}.csv")
    seen = result.report["queries"]["pairs"]["in"]
    assert 0 < seen < ROWS
    part = alone(engine, tmp_path / "part", PAIRS, rows[ROWS - seen :])
    assert lines_of(tmp_path / "out" / "pairs.csv") == lines_of(part / "pairs.csv")
    # The same command continues the changed app, although its file is the old one.
    again = engine.prepare(
        tmp_path / "app.cql",
        RunOptions(drain=True, output=tmp_path / "out", checkpoint=tmp_path / "ck", keep_results=False),
    )
    assert again.continues_changed
    assert [q.name for q in again.app.queries] == ["mean", "last", "pairs"]
    assert again.stop().finished


@pytest.mark.timeout(900)
@pytest.mark.parametrize("running", [True, False])
def test_a_saved_app_continues_elsewhere_with_the_same_lines(engine: Engine, tmp_path: Path, running: bool) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    rows = write_rows(here)
    run = started(engine, here, MEAN + PAIRS)
    if running:
        about = run.save(tmp_path / "saved")
        assert about["paused_s"] > 0
        run.await_end()
        run.stop()
    else:
        run.stop()
        from kigen.cli.changes.save import saved

        told = saved(str(tmp_path / "saved"), here / "ck", None, None)
        assert "not in it: what stream 'readings' reads in place, csv readings.csv" in told
        about = json.loads((tmp_path / "saved" / "savepoint.json").read_text())
    for path in (tmp_path / "saved").rglob("*"):
        assert not path.is_file() or str(here).encode() not in path.read_bytes(), f"{path} names the old folder"
    cut = {name: about["outputs"][f"{name} output"]["bytes"] for name in ("mean", "pairs")}
    before = {name: (here / "out" / f"{name}.csv").read_bytes()[: cut[name]] for name in cut}
    there.mkdir()
    for name in ("app.cql", "readings.csv"):
        shutil.move(here / name, there / name)
    shutil.rmtree(here)
    options = {"drain": True, "output": there / "out", "checkpoint": tmp_path / "saved", "keep_results": False}
    result = engine.run(there / "app.cql", **options)  # type: ignore[arg-type]
    assert result.finished
    whole = alone(engine, tmp_path / "whole", MEAN + PAIRS, rows)
    for name in ("mean", "pairs"):
        after = lines_of(there / "out" / f"{name}.csv")
        assert after, "the new files begin after the savepoint"
        assert sorted(before[name].decode().splitlines()[1:] + after) == lines_of(whole / f"{name}.csv")

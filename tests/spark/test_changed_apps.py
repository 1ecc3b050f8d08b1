"""A changed app on an old checkpoint: unchanged queries keep their lines, added ones have those of a run from there on,
dropped ones end where they were."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kigen.engine import CheckpointMismatch, Engine, RunOptions

ROWS = 3000
STREAM = """CREATE STREAM readings (room STRING, temp BIGINT, ts TIMESTAMP) TIMESTAMP BY ts
  FROM csv (path = 'readings.csv');
"""
MEAN = "CREATE QUERY mean AS SELECT room, SUM(temp) AS total FROM readings [RANGE 3 SECONDS] GROUP BY room;\n"
TOP = "CREATE QUERY top AS SELECT room, MAX(temp) AS top FROM readings [RANGE 3 SECONDS] GROUP BY room;\n"
ROW = "CREATE QUERY last AS SELECT room, temp FROM readings [ROWS 5] WHERE temp > 20;\n"
PAIRS = """CREATE QUERY pairs AS SELECT a.room AS r, a.temp AS x, b.temp AS y
  FROM readings [RANGE 1 SECONDS] AS a JOIN readings [ROWS 3] AS b ON a.room = b.room;
"""


def write_rows(folder: Path, rows: int = ROWS) -> list[str]:
    rng, at = random.Random(7), datetime(2026, 1, 1, tzinfo=UTC)
    lines = []
    for _ in range(rows):
        at += timedelta(milliseconds=rng.choice((0, 10, 50, 400)))
        lines.append(f"{rng.choice('abcd')},{rng.randint(0, 40)},{at.isoformat().replace('+00:00', 'Z')}")
    (folder / "readings.csv").write_text("room,temp,ts\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return lines


def lines_of(path: Path) -> list[str]:
    return sorted(path.read_text(encoding="utf-8").splitlines()[1:])


def alone(engine: Engine, folder: Path, text: str, rows: list[str]) -> Path:
    """Runs an app over these rows only."""
    folder.mkdir()
    (folder / "readings.csv").write_text("room,temp,ts\n" + "\n".join(rows) + "\n", encoding="utf-8")
    engine.run(text=STREAM + text, base=folder, drain=True, output=folder / "out", keep_results=False)
    return folder / "out"


def stopped_part_way(engine: Engine, folder: Path, text: str, until: int = 3) -> int:
    """Runs an app on a checkpoint, in small batches, and stops it. Returns how many rows it has read."""
    options = RunOptions(
        drain=True, output=folder / "out", checkpoint=folder / "ck", keep_results=False, batch_rows=200
    )
    (folder / "app.cql").write_text(STREAM + text, encoding="utf-8")
    run = engine.prepare(folder / "app.cql", options)
    run.begin(engine.spark)
    while run.active and len(run.commits) < until:
        time.sleep(0.005)
    run.stop()
    return max(rows for _, rows in run.commits)


def go_on(engine: Engine, folder: Path, text: str, **options: object):  # type: ignore[no-untyped-def]
    (folder / "app.cql").write_text(STREAM + text, encoding="utf-8")
    return engine.run(
        folder / "app.cql",
        drain=True,
        output=folder / "out",
        checkpoint=folder / "ck",
        keep_results=False,
        batch_rows=200,
        **options,  # type: ignore[arg-type]
    )


def test_unchanged_queries_keep_their_lines_and_added_ones_start_from_now(engine: Engine, tmp_path: Path) -> None:
    rows = write_rows(tmp_path)
    read = stopped_part_way(engine, tmp_path, MEAN + TOP + ROW)
    assert 200 <= read < ROWS
    dropped = (tmp_path / "out" / "top.csv").read_bytes()
    result = go_on(engine, tmp_path, MEAN + ROW + PAIRS)
    assert result.finished
    assert list(result.report["queries"]) == ["mean", "last", "pairs"]
    whole = alone(engine, tmp_path / "whole", MEAN + ROW, rows)
    for name in ("mean", "last"):
        assert lines_of(tmp_path / "out" / f"{name}.csv") == lines_of(whole / f"{name}.csv")
    seen = result.report["queries"]["pairs"]["in"]
    assert 0 < seen <= ROWS - read, "it saw what came after the change"
    part = alone(engine, tmp_path / "part", PAIRS, rows[ROWS - seen :])
    assert lines_of(tmp_path / "out" / "pairs.csv") == lines_of(part / "pairs.csv")
    now = (tmp_path / "out" / "top.csv").read_bytes()
    shorter, longer = sorted((dropped, now), key=len)  # a batch that was open is finished by the old app
    assert longer.startswith(shorter), "its output stays, up to the last commit"
    again = go_on(engine, tmp_path, MEAN + ROW + PAIRS)
    assert again.finished
    assert again.report["queries"]["pairs"]["in"] == seen


def test_a_changed_query_is_a_drop_and_an_add_and_its_old_file_is_set_aside(engine: Engine, tmp_path: Path) -> None:
    rows = write_rows(tmp_path)
    stopped_part_way(engine, tmp_path, MEAN + TOP)
    before = (tmp_path / "out" / "top.csv").read_bytes()
    changed = TOP.replace("3 SECONDS", "2 SECONDS")
    with pytest.raises(CheckpointMismatch, match="query 'top' was altered: the query itself"):
        go_on(engine, tmp_path, MEAN + changed, no_change=True)
    result = go_on(engine, tmp_path, MEAN + changed, replay_from="2026-01-01T00:00:00Z")
    assert result.report["queries"]["top"]["in"] == ROWS, "the replay covers the whole file"
    whole = alone(engine, tmp_path / "whole", MEAN + changed, rows)
    for name in ("mean", "top"):
        assert lines_of(tmp_path / "out" / f"{name}.csv") == lines_of(whole / f"{name}.csv")
    shorter, longer = sorted((before, (tmp_path / "out" / "top.csv.old-1").read_bytes()), key=len)
    assert longer.startswith(shorter)


def test_a_finished_drain_takes_added_queries_and_replays_them(engine: Engine, tmp_path: Path) -> None:
    rows = write_rows(tmp_path)
    go_on(engine, tmp_path, MEAN)
    first = (tmp_path / "out" / "mean.csv").read_bytes()
    now = go_on(engine, tmp_path, MEAN + ROW)
    assert now.finished
    assert now.report["queries"]["last"]["in"] == 0, "nothing comes after the end of the file"
    since = rows[1000].split(",")[2]
    then = go_on(engine, tmp_path, MEAN + PAIRS, replay_from=since)
    assert then.finished
    later = [row for row in rows if row.split(",")[2] >= since]
    part = alone(engine, tmp_path / "part", PAIRS, later)
    assert lines_of(tmp_path / "out" / "pairs.csv") == lines_of(part / "pairs.csv")
    assert (tmp_path / "out" / "mean.csv").read_bytes() == first

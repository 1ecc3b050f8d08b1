"""`kigen up` with a changed app continues: unchanged queries keep their lines, added ones start, dropped ones end.

readings -> a ---- b        hot crosses the link, before and after the change
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from nodes.running import SMALL, Up, drained, gone, nodes_text, spark_of
from spark.rooms import bags, write_rooms

pytestmark = pytest.mark.timeout(900)
STREAMS = """CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE STREAM alarms (room STRING, level BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'alarms.csv');
"""
HOT = (
    "CREATE QUERY hot AS SELECT room, AVG(temp) AS mean, COUNT(*) AS n FROM readings [RANGE 5 SECONDS] GROUP BY room;\n"
)
MEET = """CREATE QUERY meet AS SELECT r.room, r.temp, a.level FROM readings [RANGE 3 SECONDS] AS r, alarms [ROWS 20] AS a
  WHERE r.room = a.room;
"""
OLD = "CREATE QUERY old AS SELECT room, MAX(temp) AS top FROM readings [RANGE 5 SECONDS] GROUP BY room;\n"
NEW = "CREATE QUERY new AS ISTREAM(SELECT * FROM readings [ROWS 100] WHERE temp > 20);\n"
PLACES = """[streams.readings]
born = "a"
rate = 20
[streams.alarms]
born = "b"
rate = 10
[results]
default = "b"
"""


def write(directory: Path, app: str) -> Path:
    path = write_rooms(directory, 1200)
    path.write_text(app, encoding="utf-8")
    (directory / "nodes.toml").write_text(nodes_text("ab", PLACES), encoding="utf-8")
    return path


def out(told: dict[str, Any], node: str) -> int:
    return sum(query["out"] for query in told[node]["queries"].values() if not query["sent"])


def test_an_app_changes_on_two_nodes(tmp_path: Path) -> None:
    """Killed in the middle, changed, killed again with `kigen up` alone, and run to the end."""
    (tmp_path / "whole").mkdir()
    drained(write(tmp_path / "whole", STREAMS + HOT + MEET + OLD + NEW), tmp_path / "whole" / "out")
    whole, state = bags(tmp_path / "whole" / "out"), tmp_path / "state"
    app = write(tmp_path, STREAMS + OLD + HOT + MEET)
    arguments = ("--output", str(tmp_path / "out"), "--state", str(state))
    with Up(app, *arguments, env=SMALL) as up:
        told = up.until(lambda told: out(told, "b") > 300, "300 lines")
        dropped = [stream for stream in told["b"]["queues"] if stream.startswith("old")]
        assert dropped, "old crosses the link, too"
        assert [stream for stream in told["b"]["queues"] if not stream.startswith("old")]
        children = [about["pid"] for about in told.values()] + spark_of(state)
        for about in told.values():
            os.kill(about["pid"], signal.SIGKILL)  # in the middle of an epoch, which the old app has to finish
        up.process.kill()
        up.process.wait()
        gone(children)
    left = (tmp_path / "out" / "old.csv").read_bytes()
    app.write_text(STREAMS + NEW + HOT + MEET, encoding="utf-8")
    with Up(app, *arguments, "--no-change") as up:
        assert up.end() == 2
        assert "--no-change was given" in up.said
    with Up(app, *arguments, env=SMALL) as up:
        told = up.until(lambda told: out(told, "b") > 200, "more lines")
        assert "old    ends; its state goes, its output stays" in up.said
        assert "hot    keeps its state and its lines" in up.said
        children = [about["pid"] for about in told.values()] + spark_of(state)
        up.process.kill()
        up.process.wait()
        gone(children)
    with Up(app, *arguments) as up:
        assert up.end() == 0, up.said
        assert "the app has changed" not in up.said, "that was before the kill"
    found = bags(tmp_path / "out")
    assert found["hot.csv"] == whole["hot.csv"]
    assert found["meet.csv"] == whole["meet.csv"]
    assert set(found["new.csv"]) <= set(whole["new.csv"])
    assert len(whole["new.csv"]) > len(found["new.csv"]) > 100, "from the change on"
    assert (tmp_path / "out" / "old.csv").read_bytes().startswith(left[: len(left) // 2])
    for node in "ab":
        follows = json.loads((state / node / "follows.json").read_bytes())
        assert follows["change"] == 1
        queues = [path.name for path in (state / node / "queues").iterdir()]
        assert not [name for name in queues if name.startswith("old")], "what old alone needed is gone"

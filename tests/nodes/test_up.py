"""Apps on real nodes give the lines of `kigen run --drain`, whatever runs where, is killed, or is stopped and started
again.

readings -> a ---- b ---- c        links in a row: what a sends to c is relayed by b
            alarms-^
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nodes.running import SMALL, Up, alive, drained, gone, nodes_text, python_workers, spark_of
from spark.rooms import ROOMS, bags, write_rooms

pytestmark = pytest.mark.timeout(600)
ROW = '[[links]]\nbetween = ["a", "b"]\n[[links]]\nbetween = ["b", "c"]\n'
SPREAD = """[streams.readings]
born = "a"
rate = 20
[streams.alarms]
born = "b"
rate = 10
[results]
default = "c"
arrivals = "a"
[operators."hot.window"]
nodes = ["a"]
[operators."hot.aggregate"]
nodes = ["b"]
[operators."hot.project"]
nodes = ["c"]
[operators."meet.join"]
nodes = ["b"]
[operators."calm.project"]
nodes = ["a"]
[operators."calm.except"]
nodes = ["c"]
[operators."arrivals.filter"]
nodes = ["b"]
[operators."arrivals.istream"]
nodes = ["b"]
"""
HOT = "\n".join(line for line in ROOMS.splitlines() if "alarms" not in line and "meet" not in line)
ONE = """[streams.readings]
born = "a"
rate = 20
[results]
default = "c"
[operators."hot.window"]
nodes = ["a"]
[operators."hot.aggregate"]
nodes = ["c"]
"""


def write(directory: Path, rows: int, rest: str, app: str = ROOMS) -> Path:
    path = write_rooms(directory, rows)
    path.write_text(app, encoding="utf-8")
    (directory / "nodes.toml").write_text(nodes_text("abc", ROW + rest), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The same data and queries in one place."""
    directory = tmp_path_factory.mktemp("whole")
    drained(write_rooms(directory, 1500), directory / "out")
    return bags(directory / "out")


TICKS = """
CREATE QUERY ticks AS RSTREAM[2 SECONDS](SELECT room, COUNT(*) AS n FROM readings [ROWS 10] GROUP BY room);
CREATE QUERY both AS SELECT t.room, t.n, a.level FROM ticks [RANGE 2 SECONDS] AS t, alarms [ROWS 5] AS a
  WHERE t.room = a.room;
"""
TICKING = """[operators."ticks.rstream"]
nodes = ["a"]
[operators."both.window"]
nodes = ["c"]
[operators."both.join"]
nodes = ["c"]
"""


def test_all_kinds_of_operators_across_nodes(tmp_path: Path) -> None:
    """A filter, an aggregate, a join, EXCEPT, and a periodic stream that is read on another node. Readings end halfway,
    and their node goes on giving rows every two seconds until the alarms of b end."""
    app = write(tmp_path, 1000, SPREAD + TICKING, ROOMS + TICKS)
    readings = (tmp_path / "readings.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "readings.csv").write_text("\n".join(readings[:500]) + "\n", encoding="utf-8")
    drained(app, tmp_path / "whole")
    expected = bags(tmp_path / "whole")
    with Up(app, "--output", str(tmp_path / "out"), "--report", str(tmp_path / "report.json")) as up:
        assert up.end() == 0, up.said
        assert "takes alarms.clock from b" in up.said
    assert bags(tmp_path / "out") == expected
    last = max(line.rpartition(",")[2] for line in expected["both.csv"][1:])
    assert last > readings[500].rpartition(",")[2], "something came after the end of the readings"
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {name: query["node"] for name, query in report["queries"].items()} == {
        "hot": "c",
        "meet": "c",
        "calm": "c",
        "arrivals": "a",
        "ticks": "c",
        "both": "c",
    }
    for name, query in report["queries"].items():
        assert query["out"] == len(expected[f"{name}.csv"]) - 1
        assert query["in"] > 0
        assert 0 < query["latency_ms"]["p50"] <= query["latency_ms"]["p99"], name


def lines(told: dict[str, Any], node: str) -> int:
    return sum(query["out"] for query in told[node]["queries"].values())


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="make soak; the next test is its short form")
def test_nodes_are_killed_and_started_again(tmp_path: Path, expected: dict[str, list[str]]) -> None:
    """First the one that reads the stream, then the relay, then the one that gives results, each in the middle of its
    work."""
    app = write(tmp_path, 1500, ONE, HOT)
    with Up(app, "--output", str(tmp_path / "out"), env=SMALL) as up:
        killed = []
        for node in ("a", "b", "c"):
            least = 100 * (1 + len(killed))
            up.until(lambda told, least=least: lines(told, "c") > least, f"{least} results")
            told = up.status()
            assert told[node]["state"] in ("running", "relaying", "delivering"), told[node]
            os.kill(told[node]["pid"], signal.SIGKILL)
            killed.append(told[node]["pid"])
            up.until(lambda told, node=node: told[node]["pid"] != killed[-1], f"node {node} again")
        assert up.end() == 0, up.said
        for node in ("a", "b", "c"):
            assert f"node {node} was killed (SIGKILL); starting it again" in up.said
    assert bags(tmp_path / "out") == {name: expected[name] for name in ("hot.csv", "arrivals.csv")}


def test_a_killed_spark_or_worker_is_a_death_like_any_other(tmp_path: Path, expected: dict[str, list[str]]) -> None:
    """The JVM of the node that reads the stream, then the relay, then a Python worker of the node that gives results, at
    work."""
    app = write(tmp_path, 1500, ONE, HOT)
    owners = {node: tmp_path / "state" / node / "checkpoint" / "owner.json" for node in "ac"}
    with Up(app, "--output", str(tmp_path / "out"), "--state", str(tmp_path / "state"), env=SMALL) as up:
        told = up.until(lambda told: lines(told, "c") > 50, "50 results")
        os.kill(json.loads(owners["a"].read_bytes())["jvm"]["pid"], signal.SIGKILL)
        up.until(lambda now: now["a"]["pid"] != told["a"]["pid"] and now["a"]["state"] == "running", "node a again")
        os.kill(told["b"]["pid"], signal.SIGKILL)
        up.until(lambda now: now["b"]["pid"] != told["b"]["pid"], "node b again")
        jvm = json.loads(owners["c"].read_bytes())["jvm"]["pid"]

        def dead(_: dict[str, Any]) -> bool:  # one that has nothing to do is not missed
            for worker in python_workers(jvm):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            return "node c was killed" in up.said

        up.until(dead, "the death of node c")
        assert up.end() == 0, up.said
        for node in ("a", "c"):
            assert f"node {node} was killed (its Spark died); starting it again in 1 s" in up.said
        assert "node b was killed (SIGKILL); starting it again" in up.said
    assert bags(tmp_path / "out") == {name: expected[name] for name in ("hot.csv", "arrivals.csv")}


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="five starts of several Sparks: make soak")
def test_stopped_or_killed_the_same_command_goes_on(tmp_path: Path, expected: dict[str, list[str]]) -> None:
    """Ctrl-C: it ends its nodes, and says how to go on. Killed: its nodes notice, and end."""
    app, wanted = write(tmp_path, 1500, ONE, HOT), {name: expected[name] for name in ("hot.csv", "arrivals.csv")}
    arguments = ("--output", str(tmp_path / "out"), "--state", str(tmp_path / "state"))
    seen = 0
    for number in (signal.SIGINT, signal.SIGKILL):
        with Up(app, *arguments, env=SMALL) as up:
            told = up.until(lambda told, seen=seen: lines(told, "c") > seen + 100, "more results")
            seen = lines(told, "c")
            children = [about["pid"] for about in told.values()] + spark_of(tmp_path / "state")
            assert len(children) == 5, "three nodes; the relay needs no Spark"
            up.process.send_signal(number)
            if number == signal.SIGINT:
                assert up.end() == 0, up.said
                assert f"the same command continues from {tmp_path / 'state'}" in up.said
            else:
                up.process.wait()
                gone(children)
            assert not [pid for pid in children if alive(pid)]
        assert bags(tmp_path / "out") != wanted, "it was in the middle"
    with Up(app, *arguments) as up:
        assert up.end() == 0, up.said
        assert "stopped" not in up.said
    assert bags(tmp_path / "out") == wanted

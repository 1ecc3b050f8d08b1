"""Apps on real processes: streams are born on `up`, `mid` has a standby and works, results are wanted on `down`.

The expected lines come from `kigen run --drain` of the same app, whose streams begin when they really began.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kigen_lab.servers.ports import free_ports
from nodes.running import Up, drained
from spark.rooms import bags

from kigen.cli.nodes.placing import load_nodes
from kigen.cli.nodes.status_command import ask, replicas
from kigen.placement.from_plan import name_operators
from kigen.plan import bind

STREAMS = """
CREATE STREAM cars (id BIGINT, road BIGINT, speed DOUBLE) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = {seed},
  duration = '{seconds} s'{start}, id = 'sequence', road = 'zipf(1.2, 6)', speed = 'uniform(0, 100)');
CREATE STREAM alarms (road BIGINT, level BIGINT) FROM synthetic (rate = 6, arrivals = 'poisson', seed = {seed},
  duration = '{seconds} s'{start}, road = 'zipf(1.1, 6)', level = 'sequence');
"""
ALL = """
CREATE QUERY fast AS SELECT id, speed FROM cars [RANGE 2 SECONDS] WHERE speed > 50;
CREATE QUERY meet AS SELECT c.id, a.level FROM cars [RANGE 3 SECONDS] AS c, alarms [ROWS 5] AS a WHERE c.road = a.road;
CREATE QUERY mean AS SELECT road, AVG(speed) AS mean, COUNT(*) AS n FROM cars [ROWS 40] GROUP BY road;
CREATE QUERY calm AS SELECT road FROM cars [RANGE 2 SECONDS] EXCEPT SELECT road FROM alarms [RANGE 1 SECONDS];
CREATE QUERY came AS ISTREAM(SELECT road, MAX(speed) AS top FROM cars [RANGE 1 SECONDS] GROUP BY road);
"""
SELECTION = "CREATE QUERY fast AS SELECT id, speed FROM cars [RANGE 2 SECONDS] WHERE speed > 50;\n"
PATIENCE_S = 600.0  # four Sparks on two cores, and whatever else runs there
ENOUGH_S = 20.0  # of what is still to come, for something to happen in it


class Watched(Up):
    """Asks the nodes from this process, quickly enough to find short moments."""

    def status(self) -> dict[str, Any]:
        nodes = load_nodes(self.nodes)
        return {
            me: ask(nodes, self.state, *which)
            for me, which in replicas(nodes, [entry.name for entry in nodes.nodes]).items()
        }

    def until(self, there: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            told = self.status()
            if all(told.values()) and there(told):
                return told
            time.sleep(0.2)
        raise AssertionError(f"never seen: {what}; exit code {self.process.poll()}\n{self.said}")

    def end(self) -> int:
        self.process.wait(PATIENCE_S)
        return super().end()


class Pair:
    """An app in a folder of its own."""

    def __init__(self, folder: Path, queries: str, standby: str, seconds: int, rate: int = 25, seed: int = 7) -> None:
        self._folder, self._queries = folder, queries
        self._given = {"seconds": seconds, "rate": rate, "seed": seed}
        self.app, self.output, self.state = folder / "app.cql", folder / "out", folder / "state"
        text = self._text("")
        self.app.write_text(text, encoding="utf-8")
        up, mid, other, down = free_ports(4)
        pinned = "".join(f'[operators."{name}"]\nnodes = ["mid"]\n' for name in name_operators(bind(text)).values())
        (folder / "nodes.toml").write_text(
            f'[nodes.up]\naddress = "127.0.0.1:{up}"\n[nodes.mid]\naddress = "127.0.0.1:{mid}"\nstandby_address = '
            f'"127.0.0.1:{other}"\n'
            f'{standby}\n[nodes.down]\naddress = "127.0.0.1:{down}"\n[streams.cars]\nborn = '
            '"up"\n[streams.alarms]\nborn = "up"\n'
            f'[results]\ndefault = "down"\n{pinned}',
            encoding="utf-8",
        )

    def _text(self, start: str) -> str:
        return STREAMS.format(start=start, **self._given) + self._queries

    def up(self) -> Up:
        return Watched(self.app, "--output", str(self.output), "--state", str(self.state))

    @property
    def started(self) -> datetime:
        """Reads when the streams began from the offsets of their node's Spark."""
        newest = max((self.state / "up/checkpoint/spark/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        found = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines() if "started_us" in line]
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=found[0]["started_us"])

    @property
    def left_s(self) -> float:
        """Returns for how long tuples will still come."""
        if not any((self.state / "up/checkpoint/spark/offsets").glob("[0-9]*")):
            return float(self._given["seconds"])  # they have not begun
        return self._given["seconds"] - (datetime.now(UTC) - self.started).total_seconds()

    def check(self) -> None:
        """Checks that the lines are those of the undisturbed run."""
        whole = self._folder / "whole.cql"
        whole.write_text(self._text(f", start = '{self.started:%Y-%m-%dT%H:%M:%S.%fZ}'"), encoding="utf-8")
        drained(whole, self._folder / "whole")
        expected, got = bags(self._folder / "whole"), bags(self.output)
        assert got.keys() == expected.keys()
        for name, lines in expected.items():
            assert len(lines) > 20, f"{name} holds next to nothing: the test shows nothing"
            assert got[name] == lines, name


def role(told: dict[str, Any], wanted: str) -> str | None:
    """Names the replica that has this role."""
    return next((name for name in ("mid", "mid.1") if told[name]["role"] == wanted), None)


def steady(told: dict[str, Any]) -> bool:
    """Whether one leads and the other stands by, both are at work, and results come from the leader."""
    leader, other = role(told, "leads"), role(told, "stands by")
    return leader is not None and other is not None and all(about["state"] == "running" for about in told.values())


def lines(told: dict[str, Any]) -> int:
    return sum(query["out"] for query in told["down"]["queries"].values())


def after(least: int) -> Callable[[dict[str, Any]], bool]:
    return lambda told: steady(told) and lines(told) > least


def kill_leaders(
    pair: Pair, up: Up, most: int, rng: random.Random, ready: Callable[[dict[str, Any]], bool] = steady
) -> int:
    """Kills the leader again and again at random moments, as long as there is time and the follower is `ready`."""
    kills, seen = 0, 0
    while kills < most:
        told = up.until(
            lambda told, seen=seen: pair.left_s < ENOUGH_S or (ready(told) and lines(told) > seen),
            f"results after {kills} kills",
        )
        time.sleep(rng.uniform(0, 1.5))
        if pair.left_s < ENOUGH_S:
            break
        leader = role(told, "leads")
        assert leader is not None
        os.kill(told[leader]["pid"], signal.SIGKILL)
        kills, seen = kills + 1, lines(told)
    return kills

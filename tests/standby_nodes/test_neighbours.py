"""The leaders of two neighbouring pairs are killed at once: the lines are those of the undisturbed run.

cars -> up ---- mid ----------- late ---- down
          \\--- mid.1 --/ \\-- late.1 --/
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.servers.ports import free_ports
from standby_nodes.pairs import Pair, lines

from kigen.placement.from_plan import name_operators
from kigen.plan import bind

pytestmark = [
    pytest.mark.timeout(2400),
    pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="six Sparks for minutes: make soak"),
]
SECONDS, KILLS = 150, 3
QUERIES = """
CREATE QUERY busy AS SELECT road, COUNT(*) AS n, MAX(speed) AS top FROM cars [RANGE 3 SECONDS] WHERE speed > 40 GROUP BY road;
CREATE QUERY near AS SELECT a.level, COUNT(*) AS n FROM cars [RANGE 2 SECONDS] AS c, alarms [ROWS 5] AS a WHERE c.road = a.road
  GROUP BY a.level;
"""
STANDBY = 'standby = "lazy"\nbatch = 25\nsilence = "2 s"\n'


def leaders(told: dict[str, Any]) -> list[str]:
    return [name for name, about in told.items() if about["role"] == "leads"]


def all_at_work(told: dict[str, Any]) -> bool:
    roles = sorted(about["role"] for about in told.values())
    return roles == ["alone"] * 2 + ["leads"] * 2 + ["stands by"] * 2 and all(
        about["state"] == "running" for about in told.values()
    )


def test_leaders_of_neighbours_killed_at_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng = random.Random(seed)
    pair = Pair(tmp_path, QUERIES, "", SECONDS)
    ports = free_ports(6)
    names = name_operators(bind(pair.app.read_text(encoding="utf-8"))).values()
    text = f'[nodes.up]\naddress = "127.0.0.1:{ports[0]}"\n[nodes.down]\naddress = "127.0.0.1:{ports[1]}"\n'
    for i, name in enumerate(("mid", "late")):
        text += (
            f'[nodes.{name}]\naddress = "127.0.0.1:{ports[2 + i]}"\nstandby_address = '
            f'"127.0.0.1:{ports[4 + i]}"\n{STANDBY}'
        )
    text += '[streams.cars]\nborn = "up"\n[streams.alarms]\nborn = "up"\n[results]\ndefault = "down"\n'
    for name in names:
        text += f'[operators."{name}"]\nnodes = ["{"late" if name.endswith(("aggregate", "project")) else "mid"}"]\n'
    (tmp_path / "nodes.toml").write_text(text, encoding="utf-8")
    with pair.up() as up:
        seen, kills = 30, 0

        def over(told: dict[str, Any]) -> bool:
            return lines(told) > 0 and pair.left_s < 20

        for _ in range(KILLS):
            told = up.until(
                lambda told, seen=seen: (all_at_work(told) and lines(told) > seen) or over(told),
                "results, and standbys",
            )
            time.sleep(rng.uniform(0, 1.5))
            if pair.left_s < 20:
                break
            for name in leaders(told):
                os.kill(told[name]["pid"], signal.SIGKILL)
            seen, kills = lines(told), kills + 1
        assert up.end() == 0, f"seed {seed}: {up.said}"
    print(f"both leaders killed {kills} times")
    assert kills, "nobody was killed: tuples came for too short a time"
    pair.check()

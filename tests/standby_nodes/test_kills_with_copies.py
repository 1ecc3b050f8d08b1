"""The leader of a passive pair is killed twice and put to sleep: the lines are those of the undisturbed run.

cars, alarms -> up ---- mid ---- down
                          |
                        mid.1: copies of mid's files
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from nodes.running import alive, gone
from standby_nodes.pairs import ALL, Pair, kill_leaders, lines, role

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="several Sparks for minutes: make soak"),
]
PASSIVE = 'standby = "passive"\nperiod = "2 s"\ncompress = "zlib"'


def copied(told: dict[str, Any]) -> bool:
    """Whether one leads and the other has a copy that is not old."""
    leader, other = role(told, "leads"), role(told, "copies")
    if leader is None or other is None or told[leader]["state"] != "running":
        return False
    age_s = told[other]["copy"]["age_s"]
    return age_s is not None and age_s < 30


def spark_of_lives(state: Path) -> list[Path]:
    return list(state.glob("*/live.*/checkpoint/owner.json"))


def test_leaders_are_killed_as_often_as_the_other_can_follow(tmp_path: Path) -> None:
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng, most = random.Random(seed), int(os.environ.get("KIGEN_KILLS", "4"))
    pair = Pair(tmp_path, ALL, PASSIVE, int(os.environ.get("KIGEN_SECONDS", "150")))
    with pair.up() as up:
        kills = kill_leaders(pair, up, most, rng, copied)
        assert up.end() == 0, f"seed {seed}: {up.said}"
    print(f"{kills} kills of the leader, seed {seed}")
    assert kills, "none was killed: tuples came for too short a time"
    assert not spark_of_lives(pair.state), "whoever worked has ended in good order"
    pair.check()


def test_a_leader_asleep_keeps_copies_afterwards_and_both_may_die(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ALL, PASSIVE + '\nsilence = "2 s"', 130)
    with pair.up() as up:
        told = up.until(lambda told: copied(told) and lines(told) > 100, "results, and a copy")
        leader, other = role(told, "leads"), role(told, "copies")
        assert (leader, other) == ("mid", "mid.1")
        children = [about["pid"] for about in told.values()]
        assert [s for way in told["down"]["from"].values() for s in way["switched"]] == [], "nobody was gone"
        assert told["mid.1"]["queries"] == {}, "nothing runs there"

        os.kill(told[leader]["pid"], signal.SIGSTOP)
        asleep = lines(told)
        time.sleep(8)
        os.kill(told[leader]["pid"], signal.SIGCONT)
        told = up.until(
            lambda told: copied(told) and lines(told) > asleep + 50 and role(told, "leads") == other, "the other leads"
        )
        assert told[leader]["role"] == "copies"
        assert told[leader]["pid"] in children, "it was only asleep"

        for name in ("mid", "mid.1"):
            os.kill(told[name]["pid"], signal.SIGKILL)
        dead = lines(told)
        told = up.until(lambda told: copied(told) and lines(told) > dead, "results after both were killed")
        assert role(told, "leads") == other, "its files were further"
        children += [about["pid"] for about in told.values()]
        assert up.end() == 0, up.said
    gone(children)
    assert not [pid for pid in children if alive(pid)]
    pair.check()

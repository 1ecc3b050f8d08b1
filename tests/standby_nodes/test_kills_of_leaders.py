"""Leaders are killed, put to sleep, and killed together with the follower: the lines are those of the undisturbed run.

cars, alarms -> up ---- mid ---- down
                 \\--- mid.1 ---/
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from nodes.running import alive, gone, spark_of
from standby_nodes.pairs import ALL, SELECTION, Pair, after, kill_leaders, lines, role, steady

pytestmark = pytest.mark.timeout(1800)
LENGTHS, KILLS = ((300, 600), 10) if "KIGEN_SOAK" in os.environ else ((60, 300), 2)


def test_all_operators_whichever_replica_is_killed(tmp_path: Path) -> None:
    """Kills twice, in the soak ten times, if Spark starts as often while tuples come; then both. Where the nodes start so
    slowly that nothing is left to kill, tuples come for longer in a second try."""
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    assert any(check_kills(tmp_path / str(seconds), seconds, seed) for seconds in LENGTHS), "none was killed"


def check_kills(folder: Path, seconds: int, seed: int) -> int:
    folder.mkdir()
    pair = Pair(folder, ALL, 'standby = "lazy"\nbatch = 25\ncompress = "zlib"', seconds)
    with pair.up() as up:
        kills = kill_leaders(pair, up, KILLS, random.Random(seed))
        if pair.left_s > 0:
            told = up.status()
            for name in ("mid", "mid.1"):
                if told[name] is not None:
                    os.kill(told[name]["pid"], signal.SIGKILL)
        assert up.end() == 0, f"seed {seed}: {up.said}"
    print(f"{kills} kills of the leader")
    pair.check()
    return kills


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="several Sparks for minutes: make soak")
def test_a_selection_with_gap_rows_asleep_and_killed(tmp_path: Path) -> None:
    """Most inputs are acknowledged before a batch is full, and never sent to the follower."""
    pair = Pair(tmp_path, SELECTION, 'standby = "lazy"\nbatch = 200\nsilence = "2 s"', 110, rate=60)
    with pair.up() as up:
        told = up.until(after(300), "results, and a standby")
        assert [s for about in told.values() for way in about["from"].values() for s in way["switched"]] == [], (
            "nobody was gone"
        )
        leader, other = role(told, "leads"), role(told, "stands by")
        sent = {key.rpartition("/")[2]: value["tuples"] for key, value in told["up"]["sent"].items()}
        assert sent.get(other, 0) < sent[leader]
        children = [about["pid"] for about in told.values()] + spark_of(pair.state)

        os.kill(told[leader]["pid"], signal.SIGSTOP)
        asleep = lines(told)
        time.sleep(4)
        os.kill(told[leader]["pid"], signal.SIGCONT)
        told = up.until(lambda told: steady(told) and lines(told) > asleep + 100, "results of the other")
        assert role(told, "leads") == other
        assert told[leader]["pid"] in children, "it was only asleep, and stands by now"
        assert len(told["down"]["from"][next(iter(told["down"]["from"]))]["switched"]) == 1

        os.kill(told[other]["pid"], signal.SIGKILL)
        killed = lines(told)
        told = up.until(
            lambda told: steady(told) and lines(told) > killed, "results after the kill, and a standby again"
        )
        assert role(told, "leads") == leader
        children += [about["pid"] for about in told.values()] + spark_of(pair.state)
        assert up.end() == 0, up.said
    gone(children)
    assert not [pid for pid in children if alive(pid)], "whoever stood by has ended, too"
    pair.check()

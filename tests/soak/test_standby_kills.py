"""Kills of leaders at length: KIGEN_KILLS of them, 100 by default, over as many runs as it takes, all operators and
selections in turns."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from standby_nodes.pairs import ALL, SELECTION, Pair, kill_leaders

RUN_S, KILL_S = 600, 40  # a run at most; a kill and a restart on two cores


def test_a_hundred_leaders_killed(tmp_path: Path) -> None:
    count = int(os.environ.get("KIGEN_KILLS", "100"))
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng = random.Random(seed)
    kills = rounds = 0
    while kills < count:
        folder = tmp_path / str(rounds)
        folder.mkdir()
        batch, codec = rng.choice((1, 2, 10, 25, 50, 200)), rng.choice(("none", "zlib", "zstd", "lz4"))
        seconds = min(RUN_S, 60 + KILL_S * (count - kills))
        queries, rate = ((ALL, 25), (SELECTION, 60))[rounds % 2]
        pair = Pair(
            folder,
            queries,
            f'standby = "lazy"\nbatch = {batch}\ncompress = "{codec}"',
            seconds,
            rate,
            seed=rng.randint(1, 1000),
        )
        with pair.up() as up:
            done = kill_leaders(pair, up, count - kills, rng)
            assert up.end() == 0, f"seed {seed}, round {rounds}: {up.said}"
        assert done, f"seed {seed}, round {rounds}: no time to kill anybody"
        pair.check()
        kills, rounds = kills + done, rounds + 1
        print(f"seed {seed}: {kills} leaders killed in {rounds} runs, lines equal (batch {batch}, {codec})", flush=True)

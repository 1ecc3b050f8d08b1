"""Pairs of nodes without Spark that are killed many times: the lines are those of the undisturbed run.

Kills hit leaders mostly, followers, both at once, and the nodes around them. A killed node is started again after a
while.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest
from standby.kernel_nodes import Cluster, KernelRun, bag, undisturbed
from standby_nodes.pairs import ALL, SELECTION, Pair

from kigen.cli.loading import load
from kigen.cli.nodes.placing import NodesArguments, placed_parts

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak"),
]
KILLS = 15  # at most; then the run may come to its end


def victims(cluster: Cluster, rng: Random) -> list[str]:
    pair = [name for name in ("mid", "mid.1") if name in cluster.running]
    leads = [name for name in pair if cluster.running[name].about()["role"] == "leads"]
    what = rng.choices(("leader", "standby", "both", "up", "down"), (6, 2, 1, 1, 1))[0]
    if what == "leader":
        return leads
    if what == "standby":
        return [name for name in pair if name not in leads]
    return pair if what == "both" else [what] if what in cluster.running else []


def check(folder: Path, queries: str, standby: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kigen.engine.nodes.node_run.Run", KernelRun)
    rng = KernelRun.rng = Random(seed)
    pair = Pair(folder, queries, standby + '\nsilence = "0.5 s"', 20, rate=25, seed=seed)
    arguments = NodesArguments(
        pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None
    )
    nodes, _, parts = placed_parts(arguments)
    cluster, kills, next_at = Cluster(parts, nodes, pair.state), 0, time.monotonic() + 0.5
    try:
        while not cluster.all_done:
            cluster.look()
            if time.monotonic() > next_at and kills < KILLS and not cluster.done:
                for name in victims(cluster, rng):
                    cluster.kill(name, rng.choice((0.0, 0.1, 0.5, 1.5)))
                    kills += 1
                next_at = time.monotonic() + rng.choice((0.05, 0.3, 0.8))
            time.sleep(0.01)
    finally:
        cluster.close()
    assert kills, f"seed {seed}: nobody was killed"
    expected, got = bag(undisturbed(load(pair.app))), bag(cluster.lines)
    assert got.keys() == expected.keys()
    for name in expected:
        assert got[name] == expected[name], f"seed {seed}, after {kills} kills, {name}"


@pytest.mark.parametrize("seed", [1, 2])
def test_all_operators(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(tmp_path, ALL, 'standby = "lazy"\nbatch = 25\ncompress = "zlib"', seed, monkeypatch)


@pytest.mark.parametrize(
    ("seed", "standby"), [(3, 'standby = "active"'), (4, 'standby = "lazy"\nbatch = 10'), (5, 'standby = "upstream"')]
)
def test_a_selection_with_gap_rows(seed: int, standby: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(tmp_path, SELECTION, standby, seed, monkeypatch)


@pytest.mark.parametrize(("seed", "queries"), [(6, ALL), (7, SELECTION), (8, ALL)])
def test_copies(seed: int, queries: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower keeps copies only; one is made whenever a batch ends after half a second."""
    check(tmp_path, queries, 'standby = "passive"\nperiod = "500 ms"\ncompress = "zlib"', seed, monkeypatch)


def test_any_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    check(tmp_path, SELECTION, 'standby = "lazy"\nbatch = 60', seed, monkeypatch)

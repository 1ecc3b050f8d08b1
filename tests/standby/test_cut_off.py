"""A passive pair whose leader is cut off from its upstream node: the follower takes over, and no line is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from links.cuts import Cuttable
from standby.kernel_nodes import Cluster, KernelRun, bag, undisturbed
from standby_nodes.pairs import ALL, Pair

from kigen.cli.loading import load
from kigen.cli.nodes.placing import NodesArguments, placed_parts

pytestmark = pytest.mark.timeout(900)
PATIENCE_S = 240.0


def until(cluster: Cluster, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline
        cluster.look()
        time.sleep(0.01)


def role(cluster: Cluster, name: str) -> str:
    return str(cluster.running[name].about()["role"]) if name in cluster.running else "gone"


def copies(cluster: Cluster, name: str) -> int:
    return int(cluster.running[name].about().get("copy", {}).get("copies", 0))


def test_the_one_that_is_cut_off_is_left_and_keeps_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """This happens twice, so that the first leader leads again, from a copy; then it is killed."""
    monkeypatch.setattr("kigen.engine.nodes.node_run.Run", KernelRun)
    monkeypatch.setattr(KernelRun, "rng", Random(1))
    monkeypatch.setattr(KernelRun, "given", 200)
    pair = Pair(tmp_path, ALL, 'standby = "passive"\nperiod = "300 ms"\nsilence = "1 s"', 40)
    arguments = NodesArguments(
        pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None
    )
    nodes, _, parts = placed_parts(arguments)
    ways = {name: Cuttable(nodes.entry("up").addresses[0]) for name in ("mid", "mid.1")}
    ports = {name: int(way.address.rpartition(":")[2]) for name, way in ways.items()}
    own = {
        name: replace(nodes, nodes=tuple(replace(e, port=ports[name]) if e.name == "up" else e for e in nodes.nodes))
        for name in ways
    }
    cluster = Cluster(parts, nodes, pair.state, own)
    try:
        until(cluster, lambda: "leads" in (role(cluster, "mid"), role(cluster, "mid.1")))
        first, other = ("mid", "mid.1") if role(cluster, "mid") == "leads" else ("mid.1", "mid")
        until(cluster, lambda: copies(cluster, other) > 0)
        ways[first].silent = True
        until(cluster, lambda: (role(cluster, first), role(cluster, other)) == ("copies", "leads"))
        ways[first].heal()

        monkeypatch.setattr(KernelRun, "given", 500)
        until(cluster, lambda: copies(cluster, first) > 1)
        ways[other].silent = True
        until(cluster, lambda: (role(cluster, first), role(cluster, other)) == ("leads", "copies"))
        ways[other].heal()

        copied = copies(cluster, other)
        monkeypatch.setattr(KernelRun, "given", 800)
        until(cluster, lambda: copies(cluster, other) > copied)  # until then, a pair survives no other failure
        cluster.kill(first, 5.0)
        until(cluster, lambda: role(cluster, other) == "leads")
        monkeypatch.setattr(KernelRun, "given", 1 << 40)
        until(cluster, lambda: cluster.all_done)
    finally:
        cluster.close()
        for way in ways.values():
            way.close()
    said = capfd.readouterr().err
    for name in (first, other):
        assert f"node {name} leads: the other is cut off from the node before" in said
    assert bag(cluster.lines) == bag(undisturbed(load(pair.app)))

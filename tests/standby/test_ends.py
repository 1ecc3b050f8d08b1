"""A node is gone while its readers come to their end: when it is back, it waits for nobody, and nobody waits for it."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from standby.kernel_nodes import Cluster, KernelRun, bag, undisturbed
from standby_nodes.pairs import SELECTION, Pair

from kigen.cli.loading import load
from kigen.cli.nodes.node_processes import unread
from kigen.cli.nodes.placing import NodesArguments, placed_parts
from kigen.engine.nodes.node_options import NodeOptions
from kigen.engine.nodes.node_run import NodeRun
from kigen.links import Link, Security, secret_in

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize(
    "standby", ['standby = "upstream"', 'standby = "active"', 'standby = "passive"\nperiod = "300 ms"']
)
def test_up_is_gone_when_its_reader_ends(standby: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream node keeps inputs until the results of the pair are delivered, and the pair ends meanwhile."""
    monkeypatch.setattr("kigen.engine.nodes.node_run.Run", KernelRun)
    assert any(killed_in_time(tmp_path / str(seed), standby, seed, monkeypatch) for seed in range(1, 6)), (
        "the moment was always missed"
    )


def killed_in_time(folder: Path, standby: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Kills the upstream node when all was sent and the pair has not ended; returns whether that moment was seen."""
    monkeypatch.setattr(KernelRun, "rng", Random(seed))
    folder.mkdir()
    pair = Pair(folder, SELECTION, standby, 20)
    arguments = NodesArguments(
        pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None
    )
    nodes, _, parts = placed_parts(arguments)
    cluster, killed = Cluster(parts, nodes, pair.state), False
    deadline = time.monotonic() + 240
    try:
        while not cluster.all_done:
            assert time.monotonic() < deadline, {name: run.about() for name, run in cluster.running.items()}
            cluster.look()
            if not killed and "up" in cluster.running and all_sent(cluster):
                cluster.kill("up", 3.0)
                killed = True
            time.sleep(0.005)
    finally:
        cluster.close()
    assert bag(cluster.lines) == bag(undisturbed(load(pair.app)))
    return killed


def all_sent(cluster: Cluster) -> bool:
    told = cluster.running["up"].about()
    leaders = [
        run for name, run in cluster.running.items() if name.startswith("mid") and run.about()["role"] == "leads"
    ]
    taken = [run.about()["queues"]["cars"]["end"] for run in leaders if "cars" in run.about()["queues"]]
    return told["state"] == "delivering" and told["queues"]["cars"]["end"] in taken


def test_who_waits_for_nobody() -> None:
    readers = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert unread(readers, {"c"}, [("a", "delivering"), ("b", "delivering")]) == ["b"]
    assert unread(readers, {"b", "c"}, [("a", "running")]) == []
    assert unread(readers, {"b", "c"}, [("a", "delivering"), ("a", "delivering")]) == ["a"]
    assert unread(readers, set(), [("c", "delivering")]) == []


def test_a_replica_that_is_not_at_work_yet_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers turn to the other replica, if that one is at work."""
    monkeypatch.setattr("kigen.engine.nodes.node_run.Run", KernelRun)
    monkeypatch.setattr(KernelRun, "rng", Random(1))
    pair = Pair(tmp_path, SELECTION, 'standby = "active"', 20)
    nodes, _, parts = placed_parts(
        NodesArguments(pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None)
    )
    node = NodeRun(parts, "mid", nodes, NodeOptions(pair.state))
    try:
        assert node.gives_nothing_new
        with Link(nodes.entry("mid").addresses[0], Security(secret_in(pair.state))) as link:
            assert link.status(next(iter(node.queues)))["deaf"]
        assert node.behind is None
        monkeypatch.setattr(NodeRun, "cut_off_from", [])  # there is no node before
        node.begin(None, lambda: None)
        assert not node.gives_nothing_new
    finally:
        node.stop()

"""Links of real nodes are cut, and the follower is put to sleep: the lines are those of the undisturbed run.

Nodes are started one by one, as on several machines. Each has a nodes file of its own, in which the addresses of the
others lead through proxies.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from links.cuts import Cuttable
from nodes.running import KIGEN
from standby_nodes.pairs import ALL, PATIENCE_S, Pair, lines, role, steady

from kigen.cli.nodes.placing import load_nodes
from kigen.cli.nodes.status_command import ask, replicas
from kigen.placement.nodes_file.entries import NodesFile

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="several Sparks for minutes: make soak"),
]
SECONDS = 100
PAIR = ("mid", "mid.1")


class Apart:
    """Starts each node of an app on its own. `links[a, b]` carries what a reads from b."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self._nodes = pair, load_nodes(pair.app.with_name("nodes.toml"))
        self._which = replicas(self._nodes, [entry.name for entry in self._nodes.nodes])
        self.links = {
            (me, them): Cuttable(self._address(them))
            for me, them in [(p, "up") for p in PAIR] + [("down", p) for p in PAIR]
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _address(self, name: str) -> str:
        node, replica = self._which[name]
        return self._nodes.entry(node).addresses[replica]

    def __enter__(self) -> Apart:
        for name in self._which:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(PATIENCE_S)
        for link in self.links.values():
            link.close()

    def start(self, name: str) -> None:
        node, replica = self._which[name]
        text = self._pair.app.with_name("nodes.toml").read_text(encoding="utf-8")
        for (me, them), link in self.links.items():
            if me == name:
                text = re.sub(rf'"{re.escape(self._address(them))}"', f'"{link.address}"', text)
        file = self._pair.app.with_name(f"nodes-{name}.toml")
        file.write_text(text, encoding="utf-8")
        command = [*KIGEN, "node", node, str(self._pair.app), "--nodes", str(file), "--replica", str(replica)]
        command += ["--state", str(self._pair.state), "--output", str(self._pair.output)]
        with open(self._pair.app.with_name(f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def said(self, name: str) -> str:
        return self._pair.app.with_name(f"{name}.log").read_text(encoding="utf-8", errors="replace")

    @property
    def nodes(self) -> NodesFile:
        return self._nodes

    def until(self, there: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            told = {me: ask(self._nodes, self._pair.state, *which) for me, which in self._which.items()}
            if all(told.values()) and there(told):
                return told
            failed = [name for name, process in self.processes.items() if process.poll() not in (None, 0)]
            assert not failed, self.said(failed[0])
            time.sleep(0.1)
        raise AssertionError(f"never seen: {what}")


def led_by(name: str | None, more_than: int) -> Callable[[dict[str, Any]], bool]:
    return lambda told: steady(told) and role(told, "leads") == name and lines(told) > more_than


def switches(told: dict[str, Any]) -> int:
    return sum(len(way["switched"]) for way in told["down"]["from"].values())


def test_links_are_cut_and_a_standby_sleeps(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ALL, 'standby = "lazy"\nbatch = 25\ncompress = "zlib"', SECONDS)
    with Apart(pair) as nodes:
        told = nodes.until(lambda told: steady(told) and lines(told) > 100, "results, and a standby")
        assert not switches(told), "nobody was gone"
        first, other = role(told, "leads"), role(told, "stands by")
        assert first is not None
        assert other is not None

        nodes.links["down", first].cut()  # it is alive, and its reader cannot reach it
        told = nodes.until(led_by(other, lines(told)), "results of the other")
        nodes.links["down", first].heal()

        nodes.links[other, "up"].silent = True  # its reader reaches it, and it cannot reach its upstream node
        told = nodes.until(led_by(first, lines(told) + 20), "results of the first again")
        nodes.links[other, "up"].heal()

        before = switches(told)
        nodes.processes[other].send_signal(signal.SIGSTOP)  # a slow follower
        asleep = lines(told)
        time.sleep(8)
        nodes.processes[other].send_signal(signal.SIGCONT)
        told = nodes.until(led_by(first, asleep + 50), "results meanwhile")
        assert switches(told) == before, "no takeover while the leader is alive and reachable"
        assert pair.left_s > 0, "the tuples came to their end before all was tried"
        assert nodes.processes["down"].wait(PATIENCE_S) == 0, nodes.said("down")
    pair.check()

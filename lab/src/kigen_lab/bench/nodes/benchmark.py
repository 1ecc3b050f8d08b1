"""Runs the placement paper's experiment on two node processes with a Spark each: two allocations with two rules.

It counts late results of outputs 1 and 2 (control and warning), as the paper does. Beside each figure stand the same
tuples in virtual time: tuple by tuple without a fixed cost, and in the policy's micro-batches with the measured fixed
cost. The app is in kigen_lab.bench.nodes.app. Invariant: combinations differ in O3's node and in the policy only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from kigen.schedule import make_policy, read_policy
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.nodes.app import (
    AGE_MS,
    CENTRE_AGE_MS,
    FACTORS,
    SOLVED_FOR,
    NodesSettings,
    app_text,
    bursts,
    nodes_text,
    placements,
)
from kigen_lab.bench.worker import ContestantFailed
from kigen_lab.bench.workspace import workspace
from kigen_lab.plans.paper_example import paper_example
from kigen_lab.servers.ports import free_ports
from kigen_lab.simulate.nodes.cost_jitter import Jitter
from kigen_lab.simulate.nodes.model import singles
from kigen_lab.simulate.nodes.node_simulation import MakePolicy, simulate_nodes
from kigen_lab.simulate.nodes.placed import once, system_of

COMBINATIONS = (
    ("DeadlineAlloc", "EDF"),
    ("ExistingAlloc", "EDF"),
    ("DeadlineAlloc", "FIFO"),
    ("ExistingAlloc", "FIFO"),
)
PUBLISHED = {
    "DeadlineAlloc.EDF": 0.0211,
    "ExistingAlloc.EDF": 0.156,
    "DeadlineAlloc.FIFO": 0.409,
    "ExistingAlloc.FIFO": 0.555,
}
_PATIENCE_S = 600.0


def in_virtual_time(
    allocation: str, rule: str | MakePolicy, counts: list[dict[str, int]], fixed_us: float = 0.0
) -> float:
    """Returns the share of late results of outputs 1 and 2, in the paper's times.

    The rules edf and fifo take every tuple on its own.
    """
    system = system_of(paper_example(SOLVED_FOR), placements()[allocation])
    ages_us = {"v2v": AGE_MS * 1000, "centre": CENTRE_AGE_MS * 1000}
    late = results = 0
    for index, count in enumerate(counts):
        given = once(paper_example(max(1, count["v2v"])), ages_us)
        releases = [replace(r, parcel=replace(r.parcel, count=count[r.stream])) for r in given if count[r.stream]]
        releases.sort(key=lambda release: release.stream != "v2v")
        cost = Jitter(FACTORS).trial_of(tuple(system.speeds), (index,))
        parts = [part for release in releases for part in singles(release)]
        one, of = simulate_nodes(system, parts, rule, cost=cost, fixed_us=fixed_us).missed(("out1", "out2"))
        late, results = late + one, results + of
    return late / results


def micro_batches(policy: str, fixed_us: float) -> MakePolicy:
    name, settings = read_policy(policy)
    return lambda tasks: make_policy(name, tasks, replace(settings, may_drop=False, fixed_us=fixed_us))


class NodesBench:
    """Runs the four combinations in turn."""

    def __init__(self, settings: NodesSettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say

    @property
    def steps(self) -> int:
        return len(COMBINATIONS)

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        settings, counts, cells = self.settings, bursts(self.settings), []
        with workspace(settings.out) as work:
            for allocation, rule in COMBINATIONS:
                label = f"{allocation}.{rule}"
                self._say(label)
                o3 = placements()[allocation].nodes["O3"]
                policy = settings.edf if rule == "EDF" else settings.fifo
                cell = {"label": label, "o3": o3, **cell_of(self._up(work / label, o3, policy))}
                fixed_us = max(node["fixed_ms"] for node in cell["nodes"].values()) * 1000 / settings.stretch
                cell["virtual"] = in_virtual_time(allocation, rule.lower(), counts)
                cell["virtual_batches"] = in_virtual_time(allocation, micro_batches(policy, fixed_us), counts, fixed_us)
                cells.append(cell)
                advance()
        shown = {**asdict(settings), "out": None, "every_s": settings.every_s, "factors": FACTORS}
        return {
            "bench": "nodes",
            "machine": describe_machine(),
            "settings": shown,
            "activations": counts,
            "cells": cells,
            "broken": broken_order(cells),
        }

    def _up(self, folder: Path, o3: str, policy: str) -> dict[str, Any]:
        folder.mkdir(parents=True)
        (folder / "app.cql").write_text(app_text(self.settings, o3), encoding="utf-8")
        one, other = free_ports(2)
        (folder / "nodes.toml").write_text(nodes_text(self.settings, o3, (one, other)), encoding="utf-8")
        command = [sys.executable, "-m", "kigen.cli.main", "up", "app.cql", "--nodes", "nodes.toml", "--policy", policy]
        command += ["--report", "report.json", "--output", "out"]
        with open(folder / "up.log", "wb") as log:
            done = subprocess.run(
                command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S, check=False
            )
        if done.returncode:
            raise ContestantFailed(f"kigen up ended with exit code {done.returncode} (log: {folder / 'up.log'})")
        report = _json(folder / "report.json")
        return {**report, "nodes": {node: _json(folder / "nodes.state" / node / "report.json") for node in FACTORS}}


def cell_of(report: dict[str, Any]) -> dict[str, Any]:
    """Counts late results in a report.

    If O3 is on node 2, `warning` takes in twice as many tuples as it gives results. The share of late ones among them
    is that of its results.
    """
    queries = report["queries"]
    shown = {
        name: {
            **{key: queries[name][key] for key in ("in", "out", "missed", "latency_ms", "missed_ms")},
            "late": _share(queries[name]),
        }
        for name in ("control", "warning", "information")
    }
    results = {name: shown[name]["out"] for name in ("control", "warning")}
    late = sum(shown[name]["late"] * count for name, count in results.items()) / sum(results.values())
    nodes = {
        node: {
            "batches": r["batches"],
            "batch_ms": r["batch_ms"],
            "fixed_ms": (r["costs"] or {}).get("fixed_us", 0.0) / 1000,
        }
        for node, r in report["nodes"].items()
    }
    return {
        "late": late,
        "results": sum(results.values()),
        "queries": shown,
        "nodes": nodes,
        "wall_s": report["wall_s"],
    }


def _share(query: dict[str, Any]) -> float:
    return query["missed"] / query["in"] if query["in"] else 0.0


def broken_order(cells: list[dict[str, Any]]) -> list[str]:
    """Returns where a combination is not below the next one in the paper's order."""
    return [f"{a['label']} >= {b['label']}" for a, b in pairwise(cells) if a["late"] >= b["late"]]


def _json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
